#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=90
# files: build/selftests/starve
# modules: veth
#
# Each allocation of each call fails once, and each copy. Only for kernels with fault injection.

faults=/sys/kernel/debug
# Include allocations that may wait, of slabs and of single pages.
echo N >$faults/failslab/ignore-gfp-wait
echo N >$faults/fail_page_alloc/ignore-gfp-wait
echo 0 >$faults/fail_page_alloc/min-order
for kind in failslab fail_page_alloc fail_usercopy; do
	echo 0 >$faults/$kind/verbose
	echo -1 >$faults/$kind/times
done
load_rds
starve
