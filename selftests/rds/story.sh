#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The first part of `make run`: a demonstration of RDS. Two hosts load the modules and send data over each transport;
# every step prints its action and its result.
#
#       a $IP_a $IP6_a  ------ eth0 ------  b $IP_b $IP6_b
#
# lab: hosts=2 time=150 share
# files: build/static/rds-ping build/static/rds-info build/static/rds-stress /usr/bin/jq

. verdicts

# Only host a prints.
show() {
	[ "$HOST" = b ] || say "$*"
}

number() { # expression-of-jq
	jq -r "$1" out
}

pings() { # address what
	show "$ rds-ping -c 5 $1        # $2"
	rds-ping -c 5 -i 100ms -W 20 --json "$1" >out 2>err </dev/null
	jq -e '.received == 5' out >/dev/null
	verdict $? "rds-ping $1"
	show "$(number '"  \(.received) of \(.sent) came back, the fastest after \(.rtt_us.min | round) us"')"
}

# b listens; a sends, and sends b the options.
stress() { # address options...
	address=$1
	shift
	show "$ rds-stress -s $address $*"
	if [ "$HOST" = b ]; then
		rds-stress --json >out 2>err </dev/null
	else
		rds-stress -s "$address" --connect-retries 20 --json "$@" >out 2>err </dev/null
	fi
	[ $? = 0 ] && jq -e '.good and .counts.requests_sent > 0 and .counts.acks_received == .counts.requests_sent and
		([.counts | .lost, .duplicated, .corrupted] | all(. == 0))' out >/dev/null
	verdict $? "rds-stress $address $*"
	show "$(number '.counts | "  \(.requests_sent) messages went to b and \(.requests_received) came from b: " +
		"\(.lost) lost, \(.duplicated) doubled, \(.corrupted) damaged"')"
	barrier "after $address $*"
}

show "Two machines, a ($IP_a) and b ($IP_b), Linux $(uname -r), joined by a virtual cable."
show ""
show "$ modprobe rds rds_tcp"
load_rds >out 2>err
verdict $? "the modules load"
show "  in the kernel now: $(awk '$1 ~ /^(hawser|rds)/ { print $1 }' /proc/modules | sort | tr '\n' ' ')"
barrier loaded

if [ "$HOST" = a ]; then
	show ""
	show "A ping is an empty message to port 0, which the other kernel answers."
	pings 127.0.0.1 "loopback: never leaves this machine"
	pings "$IP_b" "over TCP and IPv4"
	pings "$IP6_b" "over TCP and IPv6"
	show ""
	show "Now data: programs on both machines send each other messages and check each byte."
fi
barrier pinged
stress "$IP_b" -T 3 -t 2 -d 4 -q 4096 -v
stress "$IP6_b" -T 3 -t 2 -d 4 -q 65536 -v

if [ "$HOST" = a ]; then
	show ""
	show "$ rds-info -c        # the kernel's counters"
	rds-info -c --json >out 2>err
	number '.counters | to_entries[] | select(.value > 0) | "  \(.key) \(.value)"' >lines
	while read -r line; do
		show "  $line"
	done <lines
	jq -e '.counters.recv_delivered > 0' out >/dev/null
	verdict $? "the counters moved"
	rds-info -an --json >out 2>err
	jq -e '[.connections[] | select(.transport == "tcp" and .connected)] | length >= 2' out >/dev/null
	verdict $? "connections over IPv4 and IPv6 are up"
	show "$ rds-info -an       # connections"
	number '.connections[] | "  \(.local_address) to \(.remote_address) over \(.transport)" +
		"\(if .connected then ", up" else "" end)"' | sort -u >lines
	while read -r line; do
		show "  $line"
	done <lines
	show ""
fi
barrier counted

end_of_verdicts
