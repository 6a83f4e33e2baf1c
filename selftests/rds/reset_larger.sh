#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
# files: build/selftests/xfer build/selftests/tcpreset
#
# Connections are reset towards the host with the larger address, which may not connect again by
# itself. Only this host sends, so that the other one does not notice by itself. A larger one that runs hawser sees to it.

[ "$SUITE_b" = kernel ] && larger_is_own="--gap-row reset-gap"
load_rds
barrier loaded
case $HOST in
a)
	tcpreset eth0 "$IP_b" 2 20 >/tmp/reset &
	xfer --own "$IP_a" --peer "$IP_b" --seconds 10 --rate 400 --size 512 --receive-only \
		--max-gap 3000 ${larger_is_own:-} --once-row reset-once
	wait $! && status=0 || status=$?
	cat /tmp/reset
	[ $status = 0 ]
	;;
b)
	xfer --own "$IP_b" --peer "$IP_a" --seconds 10 --rate 400 --size 512 --send-only \
		--max-resets 10 --reset-row reset-storm
	;;
esac
barrier done
