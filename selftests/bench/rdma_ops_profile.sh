#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=900
# modules: crc32_pclmul
# files: build/selftests/bench/rdma_ops selftests/bench/quiet.sh selftests/lib/rdma_pair.sh
#
# One round of reads and writes, for scripts/bench/profile: the marks in the program start and stop QEMU's plugin.

. rdma_pair.sh
load_suite rds rds_rdma
. quiet.sh
rdma_ops owner 10.77.2.1 5001 &
sleep 1
rdma_ops user 10.77.1.1 5001 10.77.2.1 >/tmp/results
wait $!
put /tmp/results results
cp /proc/kallsyms /tmp/kallsyms
put /tmp/kallsyms kallsyms
