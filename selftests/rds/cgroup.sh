#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=180 mem=768
# files: build/selftests/cgroup
# modules: veth
#
# A program in a memory cgroup of 64 MiB makes RDS hold as much memory as possible.

# Free memory is looked at, and the allocator's lists of each processor are not part of it: up to 28 MiB here.
echo 100000 >/proc/sys/vm/percpu_pagelist_high_fraction
load_rds
ulimit -n 4096
cgroup
