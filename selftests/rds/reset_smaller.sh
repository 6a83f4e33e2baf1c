#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
# files: build/selftests/xfer build/selftests/tcpreset
#
# Connections are reset towards the host with the smaller address, which connects again at once.

load_rds
barrier loaded
case $HOST in
a)
	xfer --own "$IP_a" --peer "$IP_b" --seconds 10 --rate 400 --size 64-2048 --max-gap 3000 \
		--once-row reset-once --max-resets 10 --reset-row reset-storm
	;;
b)
	tcpreset eth0 "$IP_a" 4 20 >/tmp/reset &
	xfer --own "$IP_b" --peer "$IP_a" --seconds 10 --rate 400 --size 64-2048 --max-gap 3000 \
		--once-row reset-once --max-resets 10 --reset-row reset-storm
	wait $! && status=0 || status=$?
	cat /tmp/reset
	[ $status = 0 ]
	;;
esac
barrier done
