#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=600
# files: build/selftests/bench/bench selftests/bench/quiet.sh selftests/bench/rounds.sh
#
# Two addresses of one machine with one processor: what RDS over loopback costs, beside a pair of AF_UNIX sockets.
# Run by scripts/bench, which makes the clock count instructions.

ip addr add 10.66.0.1/24 dev lo
ip addr add 10.66.0.2/24 dev lo
load_rds
. quiet.sh
. rounds.sh
rounds '' '' unix rds $many
