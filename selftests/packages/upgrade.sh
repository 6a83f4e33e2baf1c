#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Modules are replaced by those of another version under traffic, as scripts/packages.sh has kept both: a's by the next version
# and back, then b's, then a's again. So each version sends to each other one, from both sides. The other host's modules and
# program stay. Messages to a program that is ended may be lost; none is duplicated or overtaken.
#
# lab: hosts=2 time=200
# files: build/packages/result/usr/bin/rds-info build/selftests/xfer selftests/lib/unload.sh
# modules: build/packages/modules-before/{kver}/hawser.ko build/packages/modules-before/{kver}/rds.ko
# modules: build/packages/modules-before/{kver}/rds_tcp.ko

. verdicts
. unload.sh

load() { # version
	case $1 in
	before)
		for module in hawser rds rds_tcp; do
			insmod "/lab/files/$module.ko" || return
		done
		;;
	next)
		load_suite hawser rds rds_tcp
		;;
	esac >out 2>err
}

# Of the same version as the program, which is the next one's.
is_loaded() { # version
	rds-info --version >out 2>err
	case $1 in
	before) [ "$(grep -cE "^(rds|rds_tcp): hawser's module [0-9.]+~before, another version than this program\$" out)" = 2 ] ;;
	next) [ "$(grep -cE "^(rds|rds_tcp): hawser's module [0-9.]+\$" out)" = 2 ] ;;
	esac
}

# The host's own program, for so many seconds; what it reports is in out.
exchange() { # seconds option...
	seconds=$1
	shift
	eval "own=\$IP_$HOST peer=\$IP_$other"
	xfer --own "$own" --peer "$peer" --seconds "$seconds" --rate 1000 --size 64-4096 --lossy "$@" >out 2>err
}

# One host replaces its modules, while its program sends and receives, until the last version is loaded; the other has one
# program from the beginning to the end.
replace() { # host version-of-the-other version...
	changing=$1
	others=$2
	shift 2
	if [ "$HOST" != "$changing" ]; then
		is_loaded "$others"
		verdict $? "$HOST has the version: $others, while $changing has: $*"
		exchange $((4 * $# + 9 * TIME_SCALE))
		verdict $? "... whose program receives each message at most once, in order: $(grep -o 'received .*' out)"
		return
	fi
	while [ $# -gt 1 ]; do
		exchange 60 &
		sleep 4
		rmmod rds_tcp 2>/dev/null
		! rmmod rds 2>/dev/null
		verdict $? "modules that a program uses are not unloaded"
		kill -KILL $(pidof xfer)
		wait $!
		unload $(lsmod | grep -o '^rds_tcp') rds hawser >out 2>err
		verdict $? "when the program has ended they are: $1"
		shift
		load "$1" && is_loaded "$1"
		verdict $? "... and others are loaded: $1"
	done
	exchange 6 --patience 40
	verdict $? "... and carry traffic to and from the version: $others: $(grep -o 'received .*' out)"
}

other=b
[ "$HOST" = a ] || other=a
load before && is_loaded before
verdict $? "the version before is loaded"
number=0
for step in "a before before next before" "b before before next" "a next before next"; do
	number=$((number + 1))
	barrier "before-$number"
	replace $step
	barrier "after-$number"
done
is_loaded next
verdict $? "all modules are of the next version"
end_of_verdicts
