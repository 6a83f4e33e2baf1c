#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=240 mem=768
# files: build/selftests/rdma_fuzz build/selftests/regions selftests/lib/unload.sh selftests/lib/fuzz/afterwards.sh
#
# Two hosts whose programs register memory, give each other keys, read, write and count in each other's memory, validly or not,
# by many threads on shared sockets, while devices are removed and added. Then operations work with fresh sockets, the modules
# unload, and the memory is free again. `lab run --seed N` for another mix.

. unload.sh
. afterwards.sh
load_rxe && rdma link add rxe0 type rxe netdev eth0
load_suite rds rds_rdma
before=$(held)
barrier loaded
case $HOST in
a) rdma_fuzz "$IP_a" "$IP_b" "$SEED" 10 || : ;;
b) rdma_fuzz "$IP_b" "$IP_a" "$SEED" 10 || : ;;
esac
barrier fuzzed
case $HOST in
a) regions --first "$IP_a" "$IP_b" ;;
b) regions --second "$IP_b" "$IP_a" ;;
esac
barrier worked
all_gone "$before" rds_rdma rds hawser_verbs hawser
none_pinned
