#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel hosts=2 time=5
# expect: no end after

# One host waits for the other without end.
[ "$HOST" = a ] || sleep 1000
barrier together
