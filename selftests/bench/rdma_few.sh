#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=600
# modules: crc32_pclmul
# files: build/selftests/bench/bench selftests/bench/quiet.sh selftests/lib/rdma_pair.sh
#
# One round of RDS over RDMA, and one of AF_UNIX as their measure. Run by scripts/bench/cells.

. rdma_pair.sh
load_suite rds rds_rdma
. quiet.sh

one_round() { # protocol port
	bench server "$1" 10.77.2.1 "$2" &
	server=$!
	sleep 1
	bench client "$1" 10.77.1.1 "$2" 10.77.2.1 1 1 >>/tmp/results
	wait "$server"
}

one_round unix 5000
one_round rds 5001
put /tmp/results results
