#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
# files: build/selftests/xfer
#
# 64 KiB messages, eight outstanding on each flow, with the system's default buffers: ports are
# congested all the time, and with the kernel's own RDS one congestion map overtakes another sooner or later,
# after which nothing moves.

load_rds
barrier loaded
case $HOST in
a) own=$IP_a peer=$IP_b ;;
b) own=$IP_b peer=$IP_a ;;
esac
xfer --own "$own" --peer "$peer" --sockets 1 --seconds 15 --size 65536 --depth 8 --patience 8 \
	--end-row stall --gap-row stall --max-gap 4000
barrier done
