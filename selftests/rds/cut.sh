#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60 links=faulty
# files: build/selftests/xfer
#
# The link is cut for two seconds, twice: messages wait, and none is lost or comes twice.

load_rds
barrier loaded
case $HOST in
a)
	{
		sleep 2
		link cut
		sleep 2
		link up
		sleep 3
		link cut
		sleep 2
		link up
	} >/dev/null &
	xfer --own "$IP_a" --peer "$IP_b" --seconds 12 --rate 1000 --size 64-4096 --max-gap 15000
	wait $!
	;;
b) xfer --own "$IP_b" --peer "$IP_a" --seconds 12 --rate 1000 --size 64-4096 --max-gap 15000 ;;
esac
barrier done
