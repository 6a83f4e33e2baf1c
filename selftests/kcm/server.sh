#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# kcm-server and kcm-client between two hosts: workers that share connections, clients that disconnect, stop reading or
# send garbage, and a link that goes down.
#
#       a $IP_a $IP6_a (server)  ------ eth0 ------  b $IP_b $IP6_b (clients)
#
# lab: hosts=2 time=150
# files: build/static/kcm-server build/static/kcm-client build/selftests/kcm_echo_example /usr/bin/jq

. verdicts

patience=$((3 * TIME_SCALE)) # of the server, with a client that does not read

# A server in the background, its output in $1.out and $1.err.
serve() { # name options...
	name=$1
	shift
	kcm-server --json "$@" >"$name.out" 2>"$name.err" </dev/null &
	eval "$name=$!"
	until grep -q listening "$name.err" || ! kill -0 $!; do
		sleep 0.1
	done
	grep -q listening "$name.err"
	verdict $? "the server starts: $*"
}

stop() { # name pid
	kill -TERM "$2"
	wait "$2"
	status=$?
	cp "$1.out" out
	cp "$1.err" err
	[ $status = 0 ]
	verdict $? "the server $1 ends on SIGTERM"
}

json() { # name expression-of-jq
	jq -e "$2" out >/dev/null 2>>err
	verdict $? "$1"
}

good='.good and .counts.answers == .counts.requests and .counts.answer_bytes == .counts.request_bytes and
	([.threads[].requests] | add) == .counts.requests'

ask() { # name expression-of-jq options...
	name=$1 expression=$2
	shift 2
	kcm-client --json "$@" >out 2>err </dev/null
	json "$name" "$good and ($expression)"
}

# The large server's entries in the table of connections.
connections() {
	awk '/KCMs: 5/ { print $NF }' /proc/net/kcm
}

until_connections() { # expression-of-test...
	for _ in $(seq $((100 * TIME_SCALE))); do
		test "$(connections)" "$@" && return
		sleep 0.1
	done
	return 1
}

# A client in the background that runs until this scene stops it, one second after its three connections are there.
long_client() { # port options...
	port=$(printf %04X "$1")
	shift
	kcm-client --json -c 3 --max-size 60K -W 200 "$@" "$IP_a" >long.out 2>long.err </dev/null &
	long=$!
	until [ "$(grep -c "^ *[0-9]*: [0-9A-F:]* [0-9A-F]*:$port 01 " /proc/net/tcp)" = 3 ] || ! kill -0 $long; do
		sleep 0.1
	done
	sleep 1
}

# The program of kcm(7): a server and its worker.
example() {
	setsid kcm_echo_example serve 16500 >example.out 2>&1 </dev/null &
	server=$!
	for _ in $(seq $((100 * TIME_SCALE))); do
		kcm_echo_example ask 16500 "hello, world" >out 2>err && break
		sleep 0.1
	done
	[ "$(cat out)" = "hello, world" ]
	verdict $? "the program of the manual answers"
	kill -TERM -$server
}

serve_clients() {
	example
	echo "4096 16384 262144" >/proc/sys/net/ipv4/tcp_wmem
	serve large -w 4 -m 256K --timeout "$patience"
	serve small -w 2 -p 16401 -a "$IP_a" --steering cpu
	serve patient -w 2 -p 16403 -a "$IP_a" --timeout 3600
	serve single -w 1 -p 16402 -a "$IP6_a" --steering least-loaded
	cat /proc/net/kcm >out
	[ "$(connections)" = 0 ]
	verdict $? "/proc/net/kcm: five sockets of the large server, no connection"
	barrier listening
	barrier asked
	until_connections = 0
	verdict $? "every connection that was over is gone"
	stop large "$large"
	json "each worker had a part" '[.workers[].requests] | length == 4 and min > 0'
	json "every request was answered, or its client was gone" \
		'all(.workers[]; .requests == .answers + .undeliverable) and ([.workers[].answers] | add) > 10000'
	json "workers take several requests at once" 'all(.workers[]; .most > 1)'
	# Three that were cut off, and the nonsense. Those of the killed client end by a reset if it had something unread.
	json "who closed and who broke" '.connections | .open == 0 and .accepted == .closed + .failed and .failed >= 4'
	grep -q 'broke: Protocol error' large.err && grep -qE 'broke: (Connection timed out|Broken pipe)' large.err
	verdict $? "the server reports why connections broke"
	stop small "$small"
	json "both workers of the small server had a part" '.workers | length == 2 and all(.requests > 0)'
	stop patient "$patient"
	json "the patient server answered every request" '[.workers[] | select(.requests != .answers)] == []'
	stop single "$single"
	json "the only worker did it all" '.workers | length == 1 and .[0].answers == 1500'
	rmmod kcm 2>err
	verdict $? "nothing is left: the module goes"
}

# The patient server does not cut off a client that does not read. Others are served although each of its few workers
# has answers for that client, which finally gets all of them.
patient_server_with_a_client_that_pauses() {
	echo "4096 16384 32768" >/proc/sys/net/ipv4/tcp_rmem
	long_client 16403 -p 16403 -T $((4 * TIME_SCALE))
	kill -STOP $long
	echo "4096 131072 6291456" >/proc/sys/net/ipv4/tcp_rmem
	sleep 1
	ask "a client pauses; others are served" '.counts.answers == 2000' -p 16403 -n 500 "$IP_a"
	kill -0 $long 2>err && [ "$(cat /proc/$long/stat | cut -d ' ' -f 3)" = T ]
	verdict $? "it still pauses"
	kill -CONT $long
	wait $long
	cp long.out out
	cp long.err err
	json "it gets all its answers when it continues" "$good"
}

# Its side stays open until the server has closed: a FIN that comes while the server attaches the connection would be the
# first error of it.
garbage() {
	mkfifo request
	nc "$IP_a" 16400 <request >out 2>err &
	exec 3>request
	printf 'GET / HTTP/1.0\r\n\r\n' >&3
	wait $!
	exec 3>&-
	[ ! -s out ]
	verdict $? "garbage is not answered"
}

ask_servers() {
	barrier listening
	ask "over IPv4" '.threads | length == 8' -c 8 -n 500 "$IP_a"
	ask "over IPv6" '.counts.answers == 2000' -c 4 -n 500 "$IP6_a"
	ask "one connection, one request at a time" '.counts.answers == 300' -c 1 -n 300 -W 1 "$IP_a"
	ask "large messages" '.counts.request_bytes > 4000000' -c 4 -n 100 --max-size 256K "$IP_a"
	ask "with KCM on both sides" '.kcm and (.threads | length == 3) and (.connections | length == 6 and
		all(.requests > 0)) and ([.connections[].answers] | add) == 3000' -k 3 -c 6 -n 500 "$IP_a"
	ask "two workers, by CPU" '.counts.answers == 2000' -p 16401 -n 500 "$IP_a"
	ask "one worker answers in order" '.counts.answers == 1500' -p 16402 -c 3 -n 500 "$IP6_a"

	kcm-client --json -T 4 "$IP_a" >cable.out 2>cable.err </dev/null &
	pulled=$!
	sleep 1
	ip link set eth0 down
	sleep 1
	ip link set eth0 up
	wait $pulled
	cp cable.out out
	cp cable.err err
	json "the cable is pulled for a second" "$good"

	long_client 16400 -T 20
	kill -9 $long
	ask "a client was killed, another one continues" '.counts.answers == 2000' -n 500 "$IP_a"

	# Small buffers, so that unread answers soon fill them.
	echo "4096 16384 32768" >/proc/sys/net/ipv4/tcp_rmem
	long_client 16400 -T 20
	echo "4096 131072 6291456" >/proc/sys/net/ipv4/tcp_rmem
	kill -STOP $long
	ask "a client stops reading; others continue" '.counts.answers == 2000' -n 500 "$IP_a"
	sleep $((patience + 2)) # until it is cut off
	kill -CONT $long
	wait $long
	[ $? = 1 ] && jq -e '.good | not' long.out >out 2>err
	verdict $? "the client that was cut off reports it"

	patient_server_with_a_client_that_pauses

	garbage
	ask "after all that" '.counts.answers == 4000' "$IP_a"
	barrier asked
	rmmod kcm 2>err
	verdict $? "nothing is left: the module goes"
}

load_suite kcm >out 2>err
verdict $? "the module loads"
if [ "$HOST" = a ]; then
	serve_clients
else
	ask_servers
fi
end_of_verdicts
