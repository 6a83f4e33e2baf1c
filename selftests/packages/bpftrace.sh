#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=300 mem=1536
# files: build/packages/result/usr/bin/rds-ping /usr/bin/bpftrace
#
# Tracepoints as bpftrace has them: programs of BPF that read their fields by name, on a kernel as it is distributed.

. verdicts

# How many events the tracer has attached to so far.
events_of() { # process
	ls -l "/proc/$1/fd" | grep -c perf_event
}

# What the programs print is in out. They say when they begin; each event takes its time to be attached to.
traced() { # program command...
	program=$1
	shift
	bpftrace -B none -e "BEGIN { printf(\"attached\\n\"); } $program" >out 2>err &
	tracer=$!
	until grep -q attached out || ! kill -0 $tracer; do
		sleep 0.1
	done
	attached=-1
	while [ "$(events_of $tracer)" != $attached ]; do
		attached=$(events_of $tracer)
		sleep $TIME_SCALE
	done
	"$@" >command.out 2>>err
	# It prints what it has read, which on a busy machine is later; and misses a signal that comes while it attaches.
	sleep $((2 * TIME_SCALE))
	while kill -INT $tracer 2>/dev/null; do
		sleep 1
	done
	wait $tracer
}

has() { # name pattern
	grep -qE -- "$2" out
	verdict $? "$1"
}

load_suite hawser rds rds_tcp
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
ip link set lo up
for family in rds kcm rtrs; do
	for event in /sys/kernel/tracing/events/$family/${family}_*; do
		echo "$family:${event##*/}"
	done
done >events
bpftrace -l 'tracepoint:rds:*,tracepoint:kcm:*,tracepoint:rtrs:*' >out 2>err
sort out >listed
[ "$(wc -l <events)" = 21 ] && sed 's/^/tracepoint:/' events | sort | cmp -s - listed
verdict $? "bpftrace lists all events"
bpftrace -lv 'tracepoint:rtrs:rtrs_client_done' >out 2>err
has "... with their fields" '^ *[_a-z0-9 ]+ latency_ns'

traced "$(sed 's/.*/tracepoint:& { @ = count(); }/' events)" rds-ping -c 2 127.0.0.1
has "it attaches to all of them, and counts what they report" '^@: ([4-9]|[1-9][0-9]+)$'

traced 'tracepoint:rds:rds_send,tracepoint:rds:rds_deliver {
	printf("%s %s:%d %s:%d path=%d length=%d\n", probe, ntop(args->local), args->local_port, ntop(args->remote),
		args->remote_port, args->path, args->length); }' rds-ping -c 1 127.0.0.1
end='::ffff:127\.0\.0\.1'
has "it reads a sent message's fields" "^tracepoint:rds:rds_send $end:[1-9][0-9]* $end:0 path=-?[0-9] length=0\$"
has "... and those when a program gets it" "^tracepoint:rds:rds_deliver $end:[1-9][0-9]* $end:0 path=-1 length=0\$"
traced 'tracepoint:rds:rds_send { @bytes = hist(args->length);
	@sent[comm, ntop(args->remote)] = count(); }' rds-ping -c 3 127.0.0.1
has "its histograms" '^\[0\] +3 \|@+\|$'
has "... and who has sent to whom" "^@sent\[rds-ping, $end\]: 3\$"
end_of_verdicts
