#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=90
# expect: kernel log: BUG: KASAN: slab-out-of-bounds in .*kapi_test

# The access is planted in a .cc: only a kernel with KASAN can notice it, and only in C++ that was built for it.
modprobe kapi_test out_of_bounds=1 || true
