#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# expect: kernel log: BUG: this is only a test

# No taint, no other trace than the log.
echo "<3>BUG: this is only a test" >/dev/kmsg
