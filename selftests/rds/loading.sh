#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=240 mem=768
# files: build/selftests/loading
#
# rds_tcp fails to load, because another program listens on its port, and loads and unloads again, forty times,
# while programs use every call that could reach it. The kernel frees the text of a module that fails to load without checking
# its references.

CYCLES=40

# Programs have sockets most of the time: unloading works only while none exists.
unload_tcp() {
	tries=0
	until rmmod rds_tcp 2>/tmp/why; do
		tries=$((tries + 1))
		[ $tries -lt 2000 ] || { cat /tmp/why >&2; return 1; }
	done
}

occupy() {
	loading "$1" >/tmp/occupied &
	occupier=$!
	until grep -q occupied /tmp/occupied; do sleep 0.1; done
}

leave() {
	kill -KILL $occupier
	wait $occupier 2>/dev/null || true
	: >/tmp/occupied
}

cycle() {
	occupy occupy
	if modprobe rds_tcp 2>/tmp/why; then
		echo "rds_tcp loads although its port is taken" >&2
		return 1
	fi
	leave
	modprobe rds_tcp && unload_tcp
}

echo 1..3
load_suite rds
loading spin "$IP_a" 10.0.0.99 >/tmp/spun &
spinner=$!
cycle=0
while [ $cycle -lt $CYCLES ] && cycle; do
	cycle=$((cycle + 1))
done
if [ $cycle = $CYCLES ]; then
	echo "ok 1 $CYCLES times refused and loaded under use"
else
	echo "not ok 1 cycle $((cycle + 1)) of loading under use"
fi
occupy occupy-elsewhere
if modprobe rds_tcp; then
	echo "ok 2 loads although a user listens on its port in another namespace"
else
	echo "not ok 2 loads although a user listens on its port in another namespace"
fi
leave
load_rds
sleep 1
kill $spinner
if wait $spinner; then
	echo "ok 3 programs continued: $(cat /tmp/spun)"
else
	echo "not ok 3 programs continued: $(cat /tmp/spun)"
fi
