#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=120 mem=768
# files: build/selftests/xfer
#
# While both hosts exchange messages, one allocation in 25 of each whole machine fails: a call may report it, and
# connections may break, but each sent message arrives once, and everything works when memory is available again. Only
# for kernels with fault injection.

load_rds
barrier loaded
case $HOST in
a) xfer --own "$IP_a" --peer "$IP_b" --seconds 20 --size 64-20000 --depth 32 --starve 4 --patience 60 ;;
b) xfer --own "$IP_b" --peer "$IP_a" --seconds 20 --size 64-20000 --depth 32 --starve 4 --patience 60 ;;
esac
barrier done
