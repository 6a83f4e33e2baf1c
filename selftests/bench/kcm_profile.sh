#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=900
# files: build/selftests/bench/kcm_bench selftests/bench/quiet.sh
#
# One round, for scripts/bench/profile: the marks in the benchmark program start and stop QEMU's plugin.

ip link set lo up
load_suite kcm
. quiet.sh
kcm_bench 1 1 >/tmp/results
put /tmp/results results
cp /proc/kallsyms /tmp/kallsyms
put /tmp/kallsyms kallsyms
