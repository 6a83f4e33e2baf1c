#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=240
# files: build/static/kcm-server build/static/kcm-client selftests/lib/unload.sh
#
# a's module is loaded and unloaded thirty times: each time a server with connections from b, during their
# requests, is killed, with requests unread and answers unsent, and the module must unload right after it.

CYCLES=30

. unload.sh

busy() {
	awk '/^mux/ { busy = $2 > 20 && $NF > 0 } END { exit !busy }' /proc/net/kcm
}

live() {
	load_suite kcm || return 1
	kcm-server -w 2 >/tmp/out 2>/tmp/err </dev/null &
	server=$!
	until grep -q listening /tmp/err; do
		kill -0 $server || return 1
		sleep 0.05
	done
	# During traffic: messages have come, on connections that still exist. Checked once: a client ends by itself.
	seen=
	for try in $(seq $((50 * TIME_SCALE))); do
		if busy; then
			seen=yes
			break
		fi
		sleep 0.1
	done
	if [ -z "$seen" ]; then
		echo "# nothing comes:"
		sed 's/^/# /' /proc/net/kcm
		return 1
	fi
	kill -9 $server
	wait $server
	[ $? = 137 ] || return 1
	unload kcm hawser
}

if [ "$HOST" = b ]; then
	echo 1..1
	barrier begun
	clients=0
	while ! [ -e /tmp/over ]; do
		# Refused without a server, cut off when it is killed: ignore this client's failures.
		kcm-client -c 4 -T 1 "$IP_a" >/dev/null 2>&1 </dev/null && clients=$((clients + 1))
		sleep 0.1
	done &
	asking=$!
	barrier over
	touch /tmp/over
	wait $asking
	kcm-client -c 4 -n 200 "$IP_a" && echo "ok 1 a client of the last server" || echo "not ok 1 a client of the last server"
	barrier asked
	exit 0
fi

echo 1..4
load_suite kcm
kcm-server >/tmp/out 2>/tmp/err </dev/null &
server=$!
until grep -q listening /tmp/err; do sleep 0.1; done
if rmmod kcm 2>/tmp/why; then
	echo "not ok 1 rmmod with an open socket"
else
	echo "ok 1 rmmod with an open socket: $(cat /tmp/why)"
fi
kill $server
wait $server || true
unload kcm hawser && echo "ok 2 unload without traffic" || echo "not ok 2 unload without traffic"

barrier begun
cycle=0
while [ $cycle -lt $CYCLES ] && live; do
	cycle=$((cycle + 1))
done
if [ $cycle = $CYCLES ]; then
	echo "ok 3 $CYCLES times loaded and unloaded under traffic"
else
	echo "not ok 3 life $((cycle + 1)) of the module under traffic"
	kill -9 $server
	wait $server
fi
load_suite kcm
kcm-server >/tmp/out 2>/tmp/err </dev/null &
server=$!
until grep -q listening /tmp/err; do sleep 0.1; done
barrier over
barrier asked
kill $server
wait $server && echo "ok 4 the last server" || echo "not ok 4 the last server"
