#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=240 mem=768
# files: build/selftests/kcm_data
# modules: tls gcm ctr ghash-generic?
#
# Thousands of messages of many sockets over many connections: nothing lost, doubled, cut or reordered, while sockets,
# connections, peers and programs change.

load_suite kcm
kcm_data --seed "$SEED"
# No reference is left.
rmmod kcm
