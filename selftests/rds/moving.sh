#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=3 time=120
# files: build/selftests/xfer build/static/rds-info
#
# The address of a service moves from a to b and back, as in clusters, while c keeps sending to it. The
# modules stay loaded, so both hosts have connections of the address from the time they owned it. Messages in flight while
# it moves may be lost; none is duplicated or reordered, and c reaches the owner of the address.

SERVICE=10.0.0.100
FLOW="--rate 400 --size 64-4096 --lossy"

delivered() {
	rds-info -c | sed -n 's/ *recv_delivered *//p'
}

own() {
	ip addr add $SERVICE/24 dev eth0
	arping -q -A -c 2 -I eth0 $SERVICE
}

# The address is removed first, then the program stops, as when a cluster removes it from a host that hangs.
serve_until_moved() {
	own
	# shellcheck disable=SC2086
	xfer --own $SERVICE --peer "$IP_c" --seconds 60 $FLOW >/tmp/first &
	sleep 4
	for try in $(seq 60); do # a busy machine begins late
		[ "$(delivered)" -le 100 ] || break
		sleep 0.2
	done
	ip addr del $SERVICE/24 dev eth0
	barrier "moved from $HOST"
	sleep 1
	kill -KILL $!
	wait $! || true
	[ "$(delivered)" -gt 100 ] || { echo "nothing came to $HOST" >&2; exit 1; }
}

load_rds
barrier loaded
case $HOST in
a)
	serve_until_moved
	barrier "moved from b"
	own
	# shellcheck disable=SC2086
	xfer --own $SERVICE --peer "$IP_c" --seconds 6 --patience 40 $FLOW
	;;
b)
	barrier "moved from a"
	serve_until_moved
	echo 1..1
	echo "ok 1 the address was served from here"
	;;
c)
	barrier "moved from a" &
	first=$!
	barrier "moved from b" &
	second=$!
	# shellcheck disable=SC2086
	xfer --own "$IP_c" --peer $SERVICE --seconds $((16 * TIME_SCALE)) --patience 60 $FLOW
	wait $first
	wait $second
	;;
esac
barrier done
