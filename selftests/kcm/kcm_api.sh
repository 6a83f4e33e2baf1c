#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=120
# files: build/selftests/kcm_api
# modules: tls gcm ctr ghash-generic? smc?
#
# Every call, option, ioctl and file of a KCM socket, and the effects on its TCP connections.

# Before the module is loaded: an unprivileged socket() must not load it.
kcm_api --before-loading
load_suite kcm
kcm_api
# No reference is left.
rmmod kcm
