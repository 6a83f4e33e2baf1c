#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# modules: build/selftests/lab/{kver}/lab_bite.ko
# expect: kernel log: .*WARNING:
# expect: kernel tainted: warning issued

insmod /lab/files/lab_bite.ko mode=warn
