#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=900
# modules: crc32_pclmul
# files: build/selftests/bench/bench selftests/bench/quiet.sh selftests/lib/rdma_pair.sh
# files: /usr/bin/ib_send_lat /usr/bin/ib_send_bw /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
#
# RDS over RDMA beside raw verbs, which perftest's programs use: both ends in one machine with one processor, whose clock counts
# instructions. Run by scripts/bench/rdma. Only one connection of RDS is made: on 6.12 the end of one can hang the kernel's own.

raw() { # mode size messages program: a line as that of bench
	"$4" -e -F -d rx2 -x 1 -s "$2" -n "$3" >/dev/null 2>&1 &
	server=$!
	sleep 1
	if timeout 60 "$4" -e -F -d rx1 -x 1 -s "$2" -n "$3" 127.0.0.1 >/tmp/raw 2>/tmp/warnings; then
		# One way in microseconds, twice; or thousands of messages a millisecond.
		awk -v mode="$1" -v size="$2" -v count="$3" '
			$1 == size { each = mode == "rr" ? $6 * 2000 : 1000 / $5
				printf "cell raw %s %u 1 %u %.0f 0 0 0\n", mode, size, count, each * count }' /tmp/raw
	else
		echo "stuck raw $1 $2 1"
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
	raw rr $size 200 ib_send_lat
done >>/tmp/results
for size in 64 1024 8192 65536 1048576; do
	raw stream $size $((size < 65536 ? 1000 : size < 1048576 ? 200 : 60)) ib_send_bw
done >>/tmp/results

bench server rds 10.77.2.1 5000 &
server=$!
sleep 1
status=0
bench client rds 10.77.1.1 5000 10.77.2.1 1 1 large >>/tmp/results || status=$?
# 3: a cell was stuck, which is a result; the server still waits.
case $status in
0) wait $server ;;
3) kill $server ;;
*) exit $status ;;
esac
put /tmp/results results
