#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=90
# expect: kernel log: BUG: KCSAN: data-race in .*kapi_test

# The race is planted in a .cc: only a kernel with KCSAN can notice it, and only in C++ that was built for it.
modprobe kapi_test race=1 || true
