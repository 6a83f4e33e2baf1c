#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60 mem=768
# files: build/selftests/hostile_peer
# modules: veth sch_netem
#
# A broken or malicious peer on port 16385; an honest one must not be affected.

# Free memory is looked at, and the allocator's lists of each processor are not part of it.
echo 100000 >/proc/sys/vm/percpu_pagelist_high_fraction
load_rds
hostile_peer
