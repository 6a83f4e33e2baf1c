#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=600
# modules: crc32_pclmul
# files: build/selftests/bench/bench selftests/bench/quiet.sh selftests/bench/rdma_pair.sh
#
# RDS over RDMA, both ends in one machine with one processor, whose clock counts instructions. Run by scripts/bench/rdma.

. rdma_pair.sh
load_suite rds rds_rdma
. quiet.sh
status=0
bench server rds 10.77.2.1 5000 &
server=$!
sleep 1
bench client rds 10.77.1.1 5000 10.77.2.1 1 1 >>/tmp/results || status=$?
rdma statistic 2>/dev/null | head -3
# 3: a cell was stuck, which is a result; the server still waits.
case $status in
0) wait $server ;;
3) kill $server ;;
*) exit $status ;;
esac
put /tmp/results results
