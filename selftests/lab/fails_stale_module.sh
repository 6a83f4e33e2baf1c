#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel
# expect: exit code 1
# expect: not ok: load_suite: rds: loaded build-id

# The module in the kernel is not the file that the suite was made of.
sed -i 's/^\(kernel rds \).*/\1abad1dea/' /lab/build-ids
load_suite rds 2>/tmp/why || { echo "not ok 1 $(cat /tmp/why)"; exit 1; }
