#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=ours
# expect: wrong module: rds with build-id

# Past modprobe, the module of the other suite: a test would pass with the wrong module.
insmod "/lib/modules/$(uname -r)/kernel/net/rds/rds.ko"
