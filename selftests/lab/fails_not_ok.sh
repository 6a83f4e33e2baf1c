#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# expect: not ok: a test that fails

echo 1..2
echo "ok 1 a test that passes"
echo "not ok 2 a test that fails"
