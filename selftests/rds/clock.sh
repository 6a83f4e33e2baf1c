#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=60
# files: build/selftests/data
# modules: veth
#
# Operations that must not wait for a timer tick, in a machine whose clock counts instructions.

load_rds
data --clock
