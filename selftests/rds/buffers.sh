#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
# files: build/selftests/xfer
#
# TCP's buffer sizes are written under traffic. The kernel's own drops all connections each time.

load_rds
barrier loaded
case $HOST in
a)
	xfer --own "$IP_a" --peer "$IP_b" --seconds 10 --size 64-4096 \
		--once-row buffers-once --max-resets 4 --reset-row buffers-reset
	;;
b)
	for size in 200000 300000 200000 300000 200000 300000 200000 300000; do
		sleep 1
		echo $size >/proc/sys/net/rds/tcp/rds_tcp_sndbuf
		echo $size >/proc/sys/net/rds/tcp/rds_tcp_rcvbuf
	done &
	xfer --own "$IP_b" --peer "$IP_a" --seconds 10 --size 64-4096 \
		--once-row buffers-once --max-resets 4 --reset-row buffers-reset
	wait $!
	;;
esac
barrier done
