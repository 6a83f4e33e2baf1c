#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
# files: build/selftests/lab/rds_flow
#
# AF_RDS of this machine's suite carries a message each way.

load_rds
barrier loaded
case $HOST in
a) rds_flow "$IP_a" "$IP_b" ;;
b) rds_flow "$IP_b" "$IP_a" ;;
esac
barrier finished
