#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share time=90
# modules: build/selftests/lab/{kver}/lab_bite.ko
# expect: kernel log: .*(scheduling while atomic|sleeping function|invalid context)

# Only a kernel with the checks for it can notice this.
insmod /lab/files/lab_bite.ko mode=locks
