#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 cpus=1 time=600
# files: build/selftests/bench/bench selftests/bench/quiet.sh
#
# Client on a, server on b, a direct link between them: throughput and latency by the wall clock. Run by scripts/bench.

load_rds
. quiet.sh
for round in 1 2 3; do
	for protocol in tcp rds; do
		port=$((5000 + round))
		case $HOST in
		b)
			bench server "$protocol" "$IP_b" $port &
			server=$!
			sleep 1
			barrier "serving-$round-$protocol"
			barrier "done-$round-$protocol"
			kill $server 2>/dev/null || true
			wait $server || true
			;;
		a)
			barrier "serving-$round-$protocol"
			status=0
			bench client "$protocol" "$IP_a" $port "$IP_b" "$round" 2 >>/tmp/results || status=$?
			barrier "done-$round-$protocol"
			# 3: a cell was stuck, which is a result.
			[ $status = 0 ] || [ $status = 3 ]
			;;
		esac
	done
done
[ "$HOST" != a ] || put /tmp/results results
