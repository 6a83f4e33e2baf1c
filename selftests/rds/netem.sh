#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60 links=faulty
# files: build/selftests/xfer
#
# A link that loses, doubles and corrupts packets.

load_rds
[ "$HOST" != a ] || { link loss 2; link dup 5; link corrupt 1; }
barrier loaded
case $HOST in
a) xfer --own "$IP_a" --peer "$IP_b" --seconds 10 --rate 1000 --size 64-8192 ;;
b) xfer --own "$IP_b" --peer "$IP_a" --seconds 10 --rate 1000 --size 64-8192 ;;
esac
[ "$HOST" != a ] || link clear
barrier done
