#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=1800 mem=1024
# modules: crc32_pclmul brd
# files: build/selftests/bench/counted selftests/bench/quiet.sh selftests/lib/rdma_pair.sh /usr/bin/fio
# files: /usr/bin/ib_write_bw /usr/bin/ib_read_bw /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
#
# RNBD over RTRS beside raw verbs: client, server and the server's disk, which is in memory, in one machine with one processor,
# whose clock counts instructions. Run by scripts/bench/rtrs. fio runs each cell twice, with different numbers of requests: the
# difference is what requests cost, without the start of fio. Output: cell|stuck INVALIDATE RW BYTES DEPTH JOBS PATHS
# REQUESTS NS IDLE, and the same of raw verbs with INVALIDATE raw.

class=/sys/class/rtrs-client/lab

fio_once() { # rw bytes depth jobs requests of a job
	timeout 400 counted fio --name=cell --filename=/dev/rnbd0 --rw="$1" --bs="$2" --iodepth="$3" --numjobs="$4" \
		--number_ios="$5" --size=8m --ioengine=libaio --direct=1 --norandommap --randrepeat=1 --group_reporting \
		--thread 2>/tmp/fio
}

cell() { # invalidate rw bytes depth jobs paths
	few=$(($3 > 65536 ? 16 : 160))
	fio_once "$2" "$3" "$4" "$5" $few >/dev/null # what is only done once
	if less=$(fio_once "$2" "$3" "$4" "$5" $few) && more=$(fio_once "$2" "$3" "$4" "$5" $((few * 4))); then
		# shellcheck disable=SC2086 # two numbers each
		set -- "$@" $less $more
		echo "cell $1 $2 $3 $4 $5 $6 $((few * 3 * $5)) $((${9} - ${7})) $((${10} - ${8}))"
	else
		cat /tmp/fio >&2
		echo "stuck $*"
	fi
}

raw() { # rw bytes depth program: the other end's memory is written or read
	"$4" -F -d rx2 -x 1 -s "$2" -n 1000 -t "$3" >/dev/null 2>&1 &
	server=$!
	sleep 1
	if timeout 60 "$4" -F -d rx1 -x 1 -s "$2" -n 1000 -t "$3" 127.0.0.1 >/tmp/raw 2>/tmp/warnings; then
		# Millions of messages a second, of 10^9 instructions.
		awk -v rw="$1" -v size="$2" -v depth="$3" '
			$1 == size { printf "cell raw %s %u %u 1 1 1000 %.0f 0\n", rw, size, depth, 1000 / $5 * 1000 }' /tmp/raw
	else
		echo "stuck raw $1 $2 $3 1 1"
	fi
	wait "$server" || true
}

cells() { # invalidate
	for rw in randread randwrite; do
		cell "$1" $rw 4096 1 1 1
		cell "$1" $rw 4096 32 1 1
		cell "$1" $rw 4096 32 4 1
	done
	for rw in read write; do
		cell "$1" $rw 131072 1 1 1
		cell "$1" $rw 131072 32 1 1
	done
	echo ip:10.77.3.1@ip:10.77.4.1 >$class/add_path
	for rw in randread randwrite; do
		cell "$1" $rw 4096 32 1 2
	done
}

. rdma_pair.sh
rdma_pair 3 4
modprobe ib_uverbs
modprobe brd rd_nr=1 rd_size=12288
. quiet.sh
export IBV_DRIVERS=/lab/files/librxe # not where the library would look
for size in 4096 131072; do
	raw write $size 32 ib_write_bw
	raw read $size 32 ib_read_bw
done >>/tmp/results
mkdir -p /etc/modprobe.d
for invalidate in Y N; do
	echo "options rtrs_server always_invalidate=$invalidate" >/etc/modprobe.d/bench.conf
	load_suite rtrs-core rtrs-client rtrs-server rnbd-client rnbd-server
	[ "$(cat /sys/module/rtrs_server/parameters/always_invalidate)" = $invalidate ]
	. quiet.sh
	echo "sessname=lab path=ip:10.77.1.1@ip:10.77.2.1 device_path=/dev/ram0 access_mode=rw" \
		>/sys/class/rnbd-client/ctl/map_device
	cells $invalidate >>/tmp/results
	echo normal >/sys/block/rnbd0/rnbd/unmap_device
	while [ -e /sys/block/rnbd0 ] || [ -e $class ]; do sleep 1; done
	sleep 5 # the server ends the session
	rmmod rnbd_client rnbd_server rtrs_client rtrs_server
done
put /tmp/results results
