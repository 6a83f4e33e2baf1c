#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel time=60
# modules: build/selftests/lab/{kver}/lab_bite.ko
# expect: kernel log: .*blocked for more than

sysctl -qw kernel.hung_task_timeout_secs=5
insmod /lab/files/lab_bite.ko mode=hung
