#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60 mem=768
# files: build/selftests/api
# modules: veth
#
# Every errno, option, control message, ioctl and sysctl of an RDS socket.

load_rds
api
