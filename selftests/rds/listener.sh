#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60
# files: build/selftests/listener selftests/lib/unload.sh
# modules: veth tcp_diag
#
# What an administrator can do to the sockets that peers connect to: programs that act on new connections, ss -K.

. unload.sh
load_rds
listener
unload rds_tcp rds
