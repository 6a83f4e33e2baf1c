#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=90
# expect: kernel log: .*CFI failure at .*kapi_test

# The call is planted in a .cc: only a kernel with CFI can notice it, and only in C++ that was built for it.
modprobe kapi_test wrong_type=1 || true
