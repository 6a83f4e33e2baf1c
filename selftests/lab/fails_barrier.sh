#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel hosts=2
# expect: exit code 1
# expect: barrier together: b ended before it

if [ "$HOST" = a ]; then
	barrier together 2>/tmp/why || { echo "not ok 1 $(cat /tmp/why)"; exit 1; }
fi
