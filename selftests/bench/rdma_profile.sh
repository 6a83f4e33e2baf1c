#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=900
# modules: crc32_pclmul
# files: build/selftests/bench/bench selftests/bench/quiet.sh selftests/lib/rdma_pair.sh
#
# One round, for scripts/bench/profile: the marks in the benchmark program start and stop QEMU's plugin.

. rdma_pair.sh
load_suite rds rds_rdma
. quiet.sh
bench server rds 10.77.2.1 5000 &
sleep 1
bench client rds 10.77.1.1 5000 10.77.2.1 1 1 >/tmp/results
wait $!
put /tmp/results results
cp /proc/kallsyms /tmp/kallsyms
put /tmp/kallsyms kallsyms
