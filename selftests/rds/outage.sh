#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 cpus=1 clock=counted time=120
# files: build/selftests/outage
# modules: veth sch_netem
#
# Links that are cut, peers that stop silently, and a peer whose window is closed for a minute.

load_rds
outage
