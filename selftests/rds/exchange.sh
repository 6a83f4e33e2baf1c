#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=120
# files: build/selftests/data build/selftests/xfer
#
# Two hosts without disturbance: an echo of all sizes from either side, then both at full rate.

load_rds
barrier loaded
case $HOST in
a) data --serve "$IP_a" "$IP6_a" ;;
b) data --client "$IP_b" "$IP_a" "$IP6_b" "$IP6_a" ;;
esac
barrier turn
case $HOST in
a) data --client "$IP_a" "$IP_b" "$IP6_a" "$IP6_b" ;;
b) data --serve "$IP_b" "$IP6_b" ;;
esac
barrier both
case $HOST in
a) xfer --own "$IP_a" --peer "$IP_b" --seconds 6 --size 64-65536 ;;
b) xfer --own "$IP_b" --peer "$IP_a" --seconds 6 --size 64-65536 ;;
esac
barrier six
case $HOST in
a) xfer --own "$IP6_a" --peer "$IP6_b" --seconds 4 --size 64-8192 ;;
b) xfer --own "$IP6_b" --peer "$IP6_a" --seconds 4 --size 64-8192 ;;
esac
barrier done
