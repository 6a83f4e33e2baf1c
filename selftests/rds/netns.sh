#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60 mem=768
# files: build/selftests/netns
# modules: veth tcp_diag
#
# Namespaces act as separate hosts, and are removed at once.

load_rds
netns
