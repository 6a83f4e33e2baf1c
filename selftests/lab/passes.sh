#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
#
# The lab's own proof that two machines boot, reach each other and synchronise.

echo 1..4
ping -c 1 -W 5 "$IP_a" >&2 && ping -c 1 -W 5 "$IP_b" >&2 && echo "ok 1 both answer over IPv4"
ping -6 -c 1 -W 5 "$IP6_a" >&2 && ping -6 -c 1 -W 5 "$IP6_b" >&2 && echo "ok 2 both answer over IPv6"
barrier pinged && echo "ok 3 barrier"
echo "$HOST was here" >/tmp/note
put /tmp/note && echo "ok 4 put"
