#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# modules: build/selftests/lab/{kver}/lab_bite.ko
# expect: the machine died

insmod /lab/files/lab_bite.ko mode=oops
echo "ok 1 nothing noticed"
