#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# rds-ping, rds-info and rds-stress between two hosts.
#
#       a $IP_a $IP6_a  ------ eth0 ------  b $IP_b $IP6_b
#
# b is the passive side of every run of rds-stress. Both look at their own tables.
#
# lab: hosts=2 time=150
# files: build/static/rds-ping build/static/rds-info build/static/rds-stress build/selftests/rds_example /usr/bin/jq
# files: build/selftests/rds-tools-stress

. verdicts

# Runs a program with its output in files; its exit status in $status.
run() {
	"$@" >out 2>err </dev/null
	status=$?
}

# Checks the exit status, and a text in the output.
exits() { # status text command...
	expected=$1 text=$2
	shift 2
	run "$@"
	[ $status = "$expected" ] && cat out err | grep -qF -- "$text"
	verdict $? "$*: exit $expected, '$text'"
}

json() { # name expression-of-jq
	jq -e "$2" out >/dev/null 2>>err
	verdict $? "$1"
}

# The same run from either side; after the barrier the other side is ready.
stress() { # name expression-of-jq options-of-a...
	name=$1 expression=$2
	shift 2
	if [ "$HOST" = b ]; then
		run rds-stress --json
	else
		run rds-stress -s "$peer" --connect-retries 20 --json -T 2 "$@"
	fi
	[ $status = 0 ]
	verdict $? "stress, $name: exit 0"
	json "stress, $name: all arrived" '.good and .counts.lost == 0 and .counts.stale == 0 and
		.counts.acks_received == .counts.requests_sent and
		.counts.requests_received == .peer_counts.requests_sent'
	json "stress, $name: $expression" "$expression"
	barrier "after $name"
}

# The protocol of rds-tools' rds-stress, with ours on the host that is named.
foreign() { # our-host role-options-of-a...
	ours=$1
	shift
	program=rds-tools-stress
	[ "$HOST" != "$ours" ] || program="rds-stress --json"
	if [ "$HOST" = b ]; then
		run $program -r $IP_b -p 4500
	else
		sleep 1
		run $program -r $IP_a -s $IP_b -p 4500 -T 2 "$@"
	fi
	[ $status = 0 ]
	verdict $? "rds-tools' rds-stress and ours on $ours, $*: exit 0"
	if [ "$HOST" = "$ours" ]; then
		json "... all arrived" '.good and .counts.requests_sent > 10 and .counts.requests_received > 10'
	else
		grep -qE '^requests [1-9][0-9]+ acks [1-9][0-9]+ operations 0$' out
		verdict $? "... all arrived"
	fi
	barrier "rds-tools' with ours on $ours"
}

connections() { # family-option address-of-peer
	run rds-info -n $1 --json
	json "the connection to $2 is up, with all its paths" \
		"[.connections[] | select(.remote_address == \"$2\")] | length >= 1 and all(.connected)
		and all(.transport == \"tcp\") and ([.[].paths | length] | add) >= 8"
	run rds-info -nv $1
	grep -qE "^ +$local +$2 .* .{2}C.  tcp\$" out && [ "$(grep -c 'path over TCP' out)" -ge 8 ]
	verdict $? "... and as a table"
}

pings() {
	run rds-ping -c 5 -i 100ms -W 10 $IP_b
	[ $status = 0 ] && grep -qE '^   1: [0-9]+ usec$' out && grep -q '^5 sent, 5 received, 0% lost' out
	verdict $? "ping over IPv4"
	run rds-ping -c 20 -i 10ms -W 10 --json $IP6_b
	json "ping over IPv6, as JSON" '.received == 20 and .source == env.IP6_a
		and all(.probes[]; .from == env.IP6_b) and .rtt_us.min > 0
		and .rtt_us.min <= .rtt_us.avg and .rtt_us.avg <= .rtt_us.max'
	json "... from several ports" '[.probes[].local_port] | unique | length == 8'
	run rds-ping -c 2 -i 10ms -W 10 -I $IP_a -Q 5 --transport tcp -S 1 --json $IP_b
	json "ping with a source, a transport and a type of service" \
		'.received == 2 and .source == env.IP_a'
	run rds-ping -c 2 -i 10ms -W 10 127.0.0.1
	[ $status = 0 ]
	verdict $? "ping to ourselves"
	exits 1 "100% lost" rds-ping -c 2 -i 100ms -W 500ms 10.0.0.99
	exits 1 "is it one of this host's" rds-ping -c 1 -I 10.0.0.77 $IP_b
	exits 2 "needs its interface" rds-ping fe80::2
	exits 1 "Connection refused" rds-stress -s $IP_b -p 3999
}

infos() {
	run rds-info
	[ $status = 0 ] && grep -qE '^ +send_queued +[1-9][0-9]*$' out && grep -q '^TCP Connections:$' out
	verdict $? "everything as tables"
	run rds-info -a --json
	json "everything as JSON" '.counters.send_queued > 0 and (.sockets | type) == "array"
		and (.tcp_sockets | map(select(.remote_address | test(":"))) | length) >= 8
		and ([.receive_queue, .send_queue, .retransmit_queue] | all(type == "array"))
		and .ib_connections == null'
	exits 1 "no table of connections over RDMA" rds-info -I
	rds-info -c --delta --watch=1s >delta &
	watcher=$!
	for _ in $(seq $((20 * TIME_SCALE))); do
		rds-ping -c 1 $IP_a >/dev/null # to this host: the other one's are not counted here
		grep -qE '^ +send_pong +[1-9][0-9]*$' delta && break
		sleep 0.2
	done
	kill $watcher
	grep -qE '^ +send_pong +[1-9][0-9]*$' delta
	verdict $? "what a counter grew in an interval"
}

# The tables while rds-stress runs and b's tasks do not read.
queues() {
	if [ "$HOST" = b ]; then
		rds-stress -z >stress.out 2>&1 &
		stress_pid=$!
		barrier "queues"
		unread="^ +$IP_b +4001 +$IP_a +4001 +0 +[1-9][0-9]* +2048\$"
		for try in $(seq 40); do # until the tasks exist, and are stopped while there are messages for them
			sleep 1
			tasks=$(pidof rds-stress | tr ' ' '\n' | grep -vx "$stress_pid") || continue
			kill -STOP $tasks
			sleep 1
			run rds-info -rkv
			grep -qE "$unread" out && break
			kill -CONT $tasks
		done
		grep -qE "$unread" out
		verdict $? "unread messages"
		grep -qE "^ +$IP_b +4001 .* rds-stress\$" out
		verdict $? "the socket and its owner"
		if [ "$SUITE" = ours ]; then
			# Behind its own address and the peer's: both buffers, the inode, bytes not acknowledged, bytes not read.
			grep -qE "^ +$IP_b +4001 +[0-9.]+( +[0-9]+){5} +[1-9][0-9]{3,} +[0-9]+ rds-stress\$" out
			verdict $? "... with the bytes that it has not read"
			run rds-info -k --json
			json "... in JSON" 'any(.sockets[]; .bound_port == 4001 and .unread >= 2048 and .sending >= 0)'
		fi
		kill -CONT $tasks
		wait $stress_pid
	else
		barrier "queues"
		rds-stress -s $IP_b --connect-retries 20 -z -T 6 -d 4 -q 2048 -v >stress.out 2>&1
	fi
	status=$?
	cp stress.out out
	[ $status = 0 ]
	verdict $? "no harm done by reading late"
	barrier "after queues"
}

# The program of rds(7).
example() {
	if [ "$HOST" = b ]; then
		rds_example serve "$IP_b" >example.out 2>&1 &
		until rds-info -k | grep -q " 4712 "; do sleep 0.1; done
		barrier "served"
		barrier "asked"
		kill $!
		return
	fi
	barrier "served"
	exits 0 "5 bytes: hello" timeout $((20 * TIME_SCALE)) rds_example ask "$IP_a" "$IP_b" hello
	barrier "asked"
}

load_rds || exit 1
barrier "loaded"
if [ "$HOST" = a ]; then
	pings
	infos
fi
barrier "pinged"
local=$IP_a peer=$IP_b
[ "$HOST" = a ] || { local=$IP_b; peer=$IP_a; }
connections "" $peer
example
queues
stress "one by one" '.parameters.tasks == 1 and .rtt_us.p50 > 0' -d 1
stress "several tasks, checked" '.parameters.verify == 1 and .counts.requests_sent > 20' -t 3 -d 2 -q 3000 -v
stress "one way" '[.counts.requests_sent, .counts.requests_received] | min == 0 and max > 10' -o -d 4 -v
stress "empty of data" '.counts.requests_sent > 10' -q 40 -a 40 -d 2
stress "zero-copy" '.parameters.zerocopy == 1 and .counts.requests_sent > 10' --zerocopy -q 16K -d 2 -v
stress "without the monitor" '.counts.requests_sent > 10' --use-cong-monitor 0 -d 4
local=$IP6_a peer=$IP6_b
[ "$HOST" = a ] || { local=$IP6_b; peer=$IP6_a; }
foreign a -t 2 -d 4 -q 5000 -v
foreign b -t 2 -d 4 -q 5000 -v
stress "IPv6" '.remote_address | test(":")' -t 2 -d 2 -v -q 5000
connections -a $peer

end_of_verdicts
