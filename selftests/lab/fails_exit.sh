#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: share suite=kernel share
# expect: exit code 3

exit 3
