#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=3 time=90 links=faulty segments=2
#
# Faults of links apply to the named direction only.

# Milliseconds of a ping; empty without an answer.
ping_ms() { # address [seconds to wait]
	ping -c 1 -W "${2:-10}" "$1" 2>/dev/null | sed -n 's/.*time=\([0-9]*\).*/\1/p'
}

# check NUMBER NAME TEST...
check() {
	number=$1 name=$2
	shift 2
	if [ "$@" ]; then echo "ok $number $name"; else echo "not ok $number $name ($*)"; fi
}

if [ "$HOST" = a ]; then
	echo 1..8
	ping_ms "$IP_b" >/dev/null	# addresses are resolved before anything is cut
	ping_ms "$IP_c" >/dev/null
	ping_ms "$IP1_b" >/dev/null
	check 1 "three machines" -n "$(ping_ms "$IP_c")"
	check 2 "second segment" -n "$(ping_ms "$IP1_b")"
	link cut a-b
	check 3 "cut" -z "$(ping_ms "$IP_b" 3)"
	check 4 "only the named link" -n "$(ping_ms "$IP_c")"
	check 5 "the other segment stays" -n "$(ping_ms "$IP1_b")"
	link up a-b
	link delay 400 b-to-a
	check 6 "delay" "$(ping_ms "$IP_b")" -ge 400
	link clear
	link loss 100 eth1/a-to-b
	check 7 "loss on the second segment" -z "$(ping_ms "$IP1_b" 3)"
	link clear eth1
	check 8 "everything works again" -n "$(ping_ms "$IP1_b")"
fi
barrier finished
