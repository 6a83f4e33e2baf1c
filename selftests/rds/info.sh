#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=30 mem=768
# files: build/selftests/info
# modules: veth
#
# Every RDS_INFO item.

load_rds
info
