#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=120
# files: build/selftests/kcm_api
# modules: tls gcm ctr ghash-generic
#
# Every call, option, ioctl and file of a KCM socket, and what becomes of the TCP connections below it.

# Before the module is there: may an unprivileged socket() bring it?
kcm_api --before-loading
load_suite kcm
kcm_api
# Nothing holds it any more.
rmmod kcm
