#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=120 cmdline=ipv6.disable=1
# files: build/selftests/xfer build/static/rds-ping build/static/kcm-server build/static/kcm-client
#
# Two hosts that were started without IPv6: the modules load, and RDS and KCM work over IPv4. A program that binds to an IPv6
# address is refused; it may try this on such a host.

[ ! -e /proc/net/if_inet6 ] || { echo "this kernel has IPv6" >&2; exit 1; }
load_rds
load_suite kcm
barrier loaded
if rds-ping -c 1 -I fd00::9 fd00::2 2>/tmp/why; then
	echo "rds-ping has an IPv6 address" >&2
	exit 1
fi
case $HOST in
a) xfer --own "$IP_a" --peer "$IP_b" --seconds 4 --size 64-65536 ;;
b) xfer --own "$IP_b" --peer "$IP_a" --seconds 4 --size 64-65536 ;;
esac
barrier exchanged
case $HOST in
a)
	kcm-server >out 2>err </dev/null &
	server=$!
	until grep listening err || ! kill -0 $server; do
		sleep 0.1
	done
	barrier listening
	barrier asked
	kill $server
	wait $server
	;;
b)
	barrier listening
	kcm-client -c 2 -n 100 "$IP_a"
	barrier asked
	;;
esac
barrier done
