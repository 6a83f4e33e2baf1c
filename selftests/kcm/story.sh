#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The last part of `make run`: a demonstration of KCM. A server whose workers share all connections, clients of two
# kinds, a link that goes down and a client that is killed; every step prints its action and its result.
#
#       a $IP_a $IP6_a (server)  ------ eth0 ------  b $IP_b $IP6_b (clients)
#
# lab: hosts=2 time=150 share
# files: build/static/kcm-server build/static/kcm-client /usr/bin/jq

. verdicts

say_lines() { # file
	while IFS= read -r line; do
		say "  $line"
	done <"$1"
}

loads() {
	[ "$HOST" = b ] || say "$ modprobe kcm"
	load_suite kcm >out 2>err
	verdict $? "the module loads"
}

# ---- a

connections() {
	awk '/KCMs:/ { print $NF }' /proc/net/kcm
}

# The server also notices killed clients at once, and removes their connections.
until_connections() { # number
	for _ in $(seq $((100 * TIME_SCALE))); do
		[ "$(connections)" = "$1" ] && return
		sleep 0.1
	done
	return 1
}

say_table() {
	say "$ cat /proc/net/kcm        # the main columns"
	awk 'NR > 1 { printf "%-8s %8s %10s %8s %10s\n", $1, $2, $3, $4, $5 }' /proc/net/kcm >lines
	say_lines lines
}

serve() {
	say "$ kcm-server -w 3          # three workers, for all connections"
	kcm-server -w 3 --json >out 2>err </dev/null &
	server=$!
	until grep -q listening err || ! kill -0 $server; do
		sleep 0.1
	done
	grep -q listening err
	verdict $? "the server listens"
	barrier listening
	barrier "asked in both ways"
	say_table
	barrier "table shown"
	barrier asked
	until_connections 0
	verdict $? "the server has released every connection"
	kill -TERM $server
	wait $server
	verdict $? "the server ends"
	say "What each worker did, from the server's summary:"
	jq -r '.workers | to_entries[] | "worker \(.key): \(.value.requests) requests with \(.value.request_bytes) bytes in " +
		"\(.value.receives) calls, \(.value.answers) answers, \(.value.undeliverable) without a taker"' out >lines
	jq -r '.connections | "\(.accepted) connections, \(.closed) closed by their clients, \(.failed) broken"' out >>lines
	say_lines lines
	jq -e '([.workers[].requests] | length == 3 and min > 0) and .connections.open == 0 and
		all(.workers[]; .requests == .answers + .undeliverable)' out >/dev/null
	verdict $? "each worker had a part, and every request was answered or its client gone"
	rmmod kcm 2>err
	verdict $? "the module goes again"
}

# ---- b

# Checks a client that has ended, with its output in out and err.
answered() { # name status
	[ "$2" = 0 ] && jq -e '.good and .counts.answers == .counts.requests and
		.counts.answer_bytes == .counts.request_bytes' out >/dev/null
	verdict $? "$1"
	jq -r '.counts | "\(.requests) requests with \(.request_bytes) bytes, \(.answers) answers: \(.unanswered) missing, " +
		"\(.strange) doubled, \(.damaged) damaged, \(.disordered) out of order"' out >lines
	say_lines lines
}

ask() { # what options...
	what=$1
	shift
	say "$ kcm-client $*        # $what"
	kcm-client --json "$@" >out 2>err </dev/null
	answered "kcm-client $*" $?
}

in_background() { # options...
	say "$ kcm-client $* &"
	kcm-client --json "$@" >out 2>err </dev/null &
	client=$!
	sleep 1
}

clients() {
	barrier listening
	say "Each answer is its request in reverse order; sizes are mixed, and every byte is checked."
	ask "plain TCP, six connections" -c 6 -n 300 "$IP_a"
	ask "KCM here, too: two workers, over IPv6" -k 2 -c 4 -n 300 "$IP6_a"
	barrier "asked in both ways"
	barrier "table shown"

	in_background -T 3 "$IP_a"
	say "$ ip link set eth0 down        # the cable is pulled ..."
	ip link set eth0 down
	sleep 1
	say "$ ip link set eth0 up          # ... for a second"
	ip link set eth0 up
	wait $client
	answered "the cable was pulled meanwhile" $?

	in_background -T 60 "$IP_a"
	say "$ kill -9 ...                  # in the middle of its requests"
	kill -9 $client
	ask "another one continues" -n 300 "$IP_a"
	barrier asked
	rmmod kcm 2>err
	verdict $? "the module goes again"
}

if [ "$HOST" = a ]; then
	say ""
	say "KCM cuts TCP streams into messages, and gives them to whichever socket of a multiplexor has time."
fi
loads
if [ "$HOST" = a ]; then
	serve
else
	clients
fi
end_of_verdicts
