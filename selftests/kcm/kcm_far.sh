#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=240 mem=768 links=faulty
# files: build/selftests/kcm_data
#
# Thousands of messages of all lengths between many sockets of two machines with KCM, over a link that delays, loses and
# reorders packets, and is cut twice: nothing is lost, doubled or cut, and each connection keeps its order.

load_suite kcm
kind=
# The kernel's own KCM cannot receive messages of different lengths.
[ "$SUITE_a$SUITE_b" = oursours ] || kind=--constant
tc qdisc add dev eth0 root netem delay 4ms 1ms reorder 20% 50%
barrier loaded

# shellcheck disable=SC2086
far() {
	kcm_data --seed "$SEED" --far "$1" $kind "$IP_a" "$IP6_a"
}

sent() {
	awk '/^mux/ { n += $4 } END { print n + 0 }' /proc/net/kcm
}

# After so many messages.
cut_after() {
	until [ "$(sent)" -ge "$1" ] || [ -e /tmp/over ]; do
		sleep 0.05
	done
	link cut
	echo "# the link is cut after $(sent) messages" >&2
	sleep 2
	link up
}

if [ "$HOST" = a ]; then
	link delay 3
	link loss 1
	{
		cut_after 500
		cut_after 1500
	} >/dev/null &
	far listen && status=0 || status=$?
	touch /tmp/over
	wait $!
	link clear
else
	far connect && status=0 || status=$?
fi
barrier done
[ $status = 0 ]
# The link's faults were effective.
resent=$(awk '/^Tcp: [0-9]/ { print $13 }' /proc/net/snmp)
echo "# TCP sent $resent segments again"
[ "$resent" -ge 10 ]
# No reference is left.
rmmod kcm
