#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=600
# files: build/selftests/bench/bench selftests/bench/quiet.sh selftests/bench/rounds.sh
#
# Two namespaces of one machine with one processor, joined by a virtual link: one clock covers both ends.
# Run by scripts/bench, which makes that clock count instructions.

ip netns add left
ip netns add right
ip link add west netns left type veth peer name east netns right
ip -n left link set lo up
ip -n right link set lo up
ip -n left addr add 10.66.0.1/24 dev west
ip -n right addr add 10.66.0.2/24 dev east
ip -n left link set west up
ip -n right link set east up
load_rds
. quiet.sh
. rounds.sh
rounds 'ip netns exec left' 'ip netns exec right' tcp rds $many
