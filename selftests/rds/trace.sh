#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60
# files: build/static/rds-ping /usr/bin/trace-cmd selftests/lib/unload.sh
#
# Tracepoints, as an administrator uses them: through tracefs, and by trace-cmd, which reads their formats. Nothing is reported
# when nothing listens, and a module goes while a program does.

. verdicts
. unload.sh

events=/sys/kernel/tracing/events/rds

has() { # name pattern
	grep -qE -- "$2" out
	verdict $? "$1"
}

load_rds
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
if [ "$HOST" = b ]; then
	barrier traced
	barrier over
	echo 1..0
	exit 0
fi

cd /sys/kernel/tracing || exit 1
ls $events >/tmp/out
cd /tmp || exit 1
: >err
[ "$(grep -c '^rds_' out)" = 8 ]
verdict $? "there are the events of the documentation: $(grep '^rds_' out | tr '\n' ' ')"

echo 1 >$events/enable
barrier traced
rds-ping -c 2 "$IP_b" >/dev/null
echo 0 >$events/enable
cp /sys/kernel/tracing/trace out
ends="local=::ffff:$IP_a remote=::ffff:$IP_b"
has "the path comes up" "rds_path: $ends path=0 from=connecting to=up reason=established"
has "what was sent has ends, number and length" \
	"rds_send: local=::ffff:$IP_a:[0-9]+ remote=::ffff:$IP_b:0 path=[0-9] sequence=1 length=0 flags=0"
has "it was given to TCP" "rds_transmit: local=::ffff:$IP_a:[0-9]+ remote=::ffff:$IP_b:0 path=[0-9] sequence=1 "
has "it was acknowledged" "rds_acknowledge: $ends path=[0-9] position=[0-9]+"
has "the answer arrived" "rds_receive: local=::ffff:$IP_a:[0-9]+ remote=::ffff:$IP_b:0 path=[0-9] sequence=[0-9]+ "
has "the program has it" "rds_deliver: local=::ffff:$IP_a:[0-9]+ remote=::ffff:$IP_b:0 path=-1 "
has "the peer's map arrived" "rds_map: remote=::ffff:$IP_b changes=1"

echo >/sys/kernel/tracing/trace
rds-ping -c 2 "$IP_b" >/dev/null
cp /sys/kernel/tracing/trace out
! grep -q "rds_" out
verdict $? "nothing is reported when nobody listens"

trace-cmd record -q -o trace.dat -e rds rds-ping -c 2 "$IP_b" >out 2>err
trace-cmd report -i trace.dat >out 2>>err
has "trace-cmd reads a message's fields" \
	"rds_send: +local=::ffff:$IP_a:[0-9]+ remote=::ffff:$IP_b:0 path=[0-9] sequence=[0-9]+ length=0"
has "trace-cmd reads them when a program gets it" "rds_deliver: +local=::ffff:$IP_a:[0-9]+ remote=::ffff:$IP_b:0 path=-1"

barrier over
echo 1 >$events/enable
unload rds_tcp rds
cp /sys/kernel/tracing/trace out
has "a path of a module that goes" "rds_path: $ends path=0 from=up to=closing reason=removed"
unload hawser 2>err
verdict $? "the module with the events goes while they are on"
load_rds >out 2>err && [ -d $events ] && [ "$(cat $events/enable)" = 0 ]
verdict $? "it comes again, and they are off"
end_of_verdicts
