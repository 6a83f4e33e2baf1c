#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=600
# files: build/selftests/bench/bench selftests/bench/quiet.sh
#
# One round of TCP and two of RDS in one machine, for the profile: the first round of RDS is ignored. The marks in
# the benchmark program start and stop QEMU's plugin; the symbols are put out at the end.

ip netns add left
ip netns add right
ip link add west netns left type veth peer name east netns right
ip -n left addr add 10.66.0.1/24 dev west
ip -n right addr add 10.66.0.2/24 dev east
ip -n left link set west up
ip -n right link set east up
load_rds
. quiet.sh

for round in tcp-1 rds-2 rds-3; do
	port=$((5000 + ${round#*-}))
	ip netns exec right bench server "${round%-*}" 10.66.0.2 $port &
	sleep 1
	ip netns exec left bench client "${round%-*}" 10.66.0.1 $port 10.66.0.2 "${round#*-}" 1
	wait $!
done
cp /proc/kallsyms /tmp/kallsyms
put /tmp/kallsyms kallsyms
