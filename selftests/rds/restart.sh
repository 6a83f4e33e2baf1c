#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=90
# files: build/selftests/xfer
#
# On one side the program is killed and the modules are loaded again, twice, while the other side keeps
# sending. Messages to the killed program may be lost; none is duplicated or reordered.

load_rds
barrier loaded
case $HOST in
a)
	# For longer than b needs to come for the third time.
	xfer --own "$IP_a" --peer "$IP_b" --seconds $((12 + 9 * TIME_SCALE)) --rate 1000 --size 64-4096 --lossy \
		--once-row restart-once
	;;
b)
	for life in 1 2; do
		timeout -s KILL 4 xfer --own "$IP_b" --peer "$IP_a" --seconds 60 --rate 1000 --size 64-4096 \
			--lossy >/tmp/life$life || true
		# The last reference may be dropped shortly after the program was killed.
		for module in rds_tcp rds; do
			for try in $(seq 40); do ! rmmod $module 2>/dev/null || break; sleep 0.5; done
		done
		load_rds
	done
	xfer --own "$IP_b" --peer "$IP_a" --seconds 6 --patience 40 --rate 1000 --size 64-4096 --lossy \
		--once-row restart-once
	;;
esac
barrier done
