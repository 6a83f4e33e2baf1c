#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# expect: not ok: a test that does nothing \(skipped, and not in selftests/skips

echo 1..1
echo "ok 1 a test that does nothing # SKIP it is not in the mood"
