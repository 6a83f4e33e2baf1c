#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60 mem=768
# files: build/selftests/data
# modules: veth
#
# Contents, order, blocking, congestion, zerocopy and ping, inside one machine.

load_rds
data
