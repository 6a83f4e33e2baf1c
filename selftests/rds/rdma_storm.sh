#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=150 mem=512
# files: build/selftests/rdma_storm selftests/lib/unload.sh selftests/lib/fuzz/afterwards.sh
#
# Two hosts with many programs that use each other's memory by every operation, while bad ones end the connection for all, sockets
# close and programs are killed: every byte is checked. Then the modules unload, and the memory is free again.

. unload.sh
. afterwards.sh
load_rxe && rdma link add rxe0 type rxe netdev eth0
load_suite rds rds_rdma
before=$(held)
barrier loaded
case $HOST in
a) rdma_storm "$IP_a" "$IP_b" "$SEED" 12 || : ;;
b) rdma_storm "$IP_b" "$IP_a" "$SEED" 12 || : ;;
esac
barrier stormed
all_gone "$before" rds_rdma rds hawser_verbs hawser
none_pinned
