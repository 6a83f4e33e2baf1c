#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=600
# files: build/selftests/bench/bench selftests/bench/quiet.sh
#
# As profile.sh, over loopback, beside AF_UNIX.

ip addr add 10.66.0.1/24 dev lo
ip addr add 10.66.0.2/24 dev lo
load_rds
. quiet.sh

for round in unix-1 rds-2 rds-3; do
	port=$((5000 + ${round#*-}))
	bench server "${round%-*}" 10.66.0.2 $port &
	sleep 1
	bench client "${round%-*}" 10.66.0.1 $port 10.66.0.2 "${round#*-}" 1
	wait $!
done
cp /proc/kallsyms /tmp/kallsyms
put /tmp/kallsyms kallsyms
