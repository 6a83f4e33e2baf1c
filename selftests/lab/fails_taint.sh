#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# expect: kernel tainted: user asked

echo 64 >/proc/sys/kernel/tainted
