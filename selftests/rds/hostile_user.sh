#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60 mem=768
# files: build/selftests/hostile_user
# modules: veth
#
# A broken or malicious local program: bad memory, memory that stalls, races, a storm of random calls.

load_rds
hostile_user 1
