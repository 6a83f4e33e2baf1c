#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=240 mem=768
# files: build/selftests/reload selftests/lib/unload.sh
#
# a's modules are loaded and unloaded fifty times. Each time they carry traffic both ways, and unload right after the
# program that used them was killed, with messages unread and unacknowledged. b sends to a all the time.

CYCLES=50

. unload.sh

# Loads, uses and unloads a's modules; $last is the last number received from b.
live() {
	load_rds || return 1
	status=0
	reload visit "$IP_a" "$IP_b" "$last" >/tmp/last || status=$?
	[ "$status" = 137 ] || { echo "the visit ended with $status" >&2; return 1; }
	last=$(cat /tmp/last)
	unload rds_tcp rds hawser
}

if [ "$HOST" = b ]; then
	echo 1..1
	load_rds
	reload keep "$IP_b" "$IP_a" &
	barrier sending
	barrier over
	kill $!
	if wait $!; then
		echo "ok 1 b's program continued and received from a"
	else
		echo "not ok 1 b's program continued and received from a"
	fi
	exit 0
fi

echo 1..3
load_rds
reload hold "$IP_a" >/tmp/held &
while ! grep -q held /tmp/held; do sleep 0.1; done
if rmmod rds 2>/tmp/why || rmmod rds_tcp rds 2>/tmp/why; then
	echo "not ok 1 rmmod with an open socket"
else
	echo "ok 1 rmmod with an open socket: $(cat /tmp/why)"
fi
kill $!
wait $! || true
lsmod | grep -q '^rds_tcp' || load_rds
unload rds_tcp rds hawser && echo "ok 2 unload without traffic"

barrier sending
last=0
cycle=0
while [ $cycle -lt $CYCLES ] && live; do
	cycle=$((cycle + 1))
done
if [ $cycle = $CYCLES ]; then
	echo "ok 3 $CYCLES lives of the modules under traffic"
else
	echo "not ok 3 life $((cycle + 1)) of the modules under traffic"
fi
barrier over
