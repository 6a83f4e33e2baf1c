#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=900 mem=1024
# modules: crc32_pclmul brd
# files: build/selftests/bench/counted selftests/bench/quiet.sh selftests/lib/rdma_pair.sh /usr/bin/fio
#
# Requests of 4 KiB over one path, for scripts/bench/profile: the marks in `counted` start and stop QEMU's plugin.

. rdma_pair.sh
modprobe brd rd_nr=1 rd_size=12288
load_suite rtrs-core rtrs-client rtrs-server rnbd-client rnbd-server
echo "sessname=lab path=ip:10.77.1.1@ip:10.77.2.1 device_path=/dev/ram0 access_mode=rw" >/sys/class/rnbd-client/ctl/map_device
. quiet.sh
for rw in randread randwrite; do
	for depth in 1 32; do
		counted fio --name=cell --filename=/dev/rnbd0 --rw=$rw --bs=4096 --iodepth=$depth --number_ios=1000 --size=8m \
			--ioengine=libaio --direct=1 --norandommap --randrepeat=1 --thread 2>/tmp/fio >/tmp/figures
	done
done
cp /proc/kallsyms /tmp/kallsyms
put /tmp/kallsyms kallsyms
