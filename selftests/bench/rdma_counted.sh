#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=900
# modules: crc32_pclmul
# files: build/selftests/bench/bench build/selftests/bench/rdma_ops selftests/bench/quiet.sh selftests/lib/rdma_pair.sh
# files: /usr/bin/ib_send_lat /usr/bin/ib_send_bw /usr/bin/ib_read_bw /usr/bin/ib_write_bw
# files: /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
#
# RDS over RDMA beside raw verbs, which perftest's programs use: both ends in one machine with one processor, whose clock counts
# instructions. Run by scripts/bench/rdma. Only one connection of RDS is made: on 6.12 the end of one can hang the kernel's own.

raw() { # mode size messages program option...: a line as that of bench
	mode=$1 size=$2 count=$3
	shift 3
	"$@" -F -d rx2 -x 1 -s "$size" -n "$count" >/dev/null 2>&1 &
	server=$!
	sleep 1
	if timeout 60 "$@" -F -d rx1 -x 1 -s "$size" -n "$count" 127.0.0.1 >/tmp/raw 2>/tmp/warnings; then
		# One way in microseconds, twice; or thousands of messages a millisecond.
		awk -v mode="$mode" -v size="$size" -v count="$count" '
			$1 == size { each = mode == "rr" ? $6 * 2000 : 1000 / $5
				printf "cell raw %s %u 1 %u %.0f 0 0 0\n", mode, size, count, each * count }' /tmp/raw
	else
		echo "stuck raw $mode $size 1"
		kill "$server" || true
	fi
	wait "$server" || true
}

. rdma_pair.sh
modprobe ib_uverbs
load_suite rds rds_rdma
. quiet.sh
export IBV_DRIVERS=/lab/files/librxe # not where the library would look
for size in 64 1024 8192 65536; do
	raw rr $size 200 ib_send_lat -e
done >>/tmp/results
for size in 64 1024 8192 65536 1048576; do
	raw stream $size $((size < 65536 ? 1000 : size < 1048576 ? 200 : 60)) ib_send_bw -e
done >>/tmp/results
# As selftests/bench/rdma_ops.c: sixteen under way, and each reported. ib_write_bw cannot sleep.
for size in 4096 65536 1048576; do
	operations=$((size < 65536 ? 1000 : size < 1048576 ? 200 : 40))
	raw read $size $operations ib_read_bw -e -t 16 -Q 1
	raw write $size $operations ib_write_bw -t 16 -Q 1
done >>/tmp/results

# server-command client-command, words of each: 3 says that a cell was stuck, which is a result; the server still waits.
both() {
	$1 &
	server=$!
	sleep 1
	status=0
	$2 >>/tmp/results || status=$?
	case $status in
	0) wait $server ;;
	3) kill $server ;;
	*) exit $status ;;
	esac
}

both "bench server rds 10.77.2.1 5000" "bench client rds 10.77.1.1 5000 10.77.2.1 1 1 large"
both "rdma_ops owner 10.77.2.1 5001" "rdma_ops user 10.77.1.1 5001 10.77.2.1"
put /tmp/results results
