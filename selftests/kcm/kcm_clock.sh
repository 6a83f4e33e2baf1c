#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=60
# files: build/selftests/kcm_api
#
# Operations that must not wait for a timer tick, in a machine whose clock counts instructions.

load_suite kcm
# Segments that are small compared with the buffers, or TCP itself waits for a larger window.
ip link set lo mtu 1500
kcm_api --clock
rmmod kcm
