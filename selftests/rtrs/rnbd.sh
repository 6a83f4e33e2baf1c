#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=120 links=faulty segments=2 mem=768
# files: build/selftests/rtrs_blockio selftests/lib/rnbd.sh selftests/lib/soon.sh
# modules: brd
#
# RNBD, unmodified, over RTRS: host b has a disk of host a, over one and over two paths of Soft-RoCE. All data is checked. The
# disk is mapped, unmapped and mapped again; paths come, go, and are disconnected and connected again while there is IO, with each
# policy; a link is cut.

. verdicts
. rnbd.sh

io() { # options of rtrs_blockio...
	timeout $((90 * TIME_SCALE)) rtrs_blockio "$disk" --table table "$@" >out 2>err && return
	status=$?
	explain_client >>err 2>&1
	return $status
}

# Requests that went over a path.
requests() { # path
	awk '{ print $1 + $3 }' "$class/paths/$1/stats/rdma"
}

serve_disk() {
	serve
	verdict $? "the server's modules are loaded"
	trace_paths
	barrier served
	barrier used
	explain
	trace_ends
	soon no_session
	verdict $? "no session is left"
	rmmod rnbd_server rtrs_server >out 2>err
	verdict $? "the server's modules can go"
}

one_path() {
	map "$one"
	verdict $? "a disk is mapped over one path"
	[ -b $disk ] || return
	io --seconds 2 --depth 1 --size 4096
	verdict $? "one request at a time: $(cat out)"
	io --seconds 3 --depth 16 --size 131072
	verdict $? "16 requests of all sizes at a time: $(cat out)"
	unmap
	verdict $? "it is unmapped"
	map "$one"
	verdict $? "and mapped again"
	io --seconds 1
	verdict $? "with its data: $(cat out)"
	[ "$SUITE" != ours ] || traced
	for _ in $(seq 3); do
		unmap && map "$one" || break
	done
	verdict $? "it is unmapped and mapped some times"
}

# Tracepoints are hawser's.
traced() {
	tracing=/sys/kernel/tracing
	mount -t tracefs tracefs $tracing 2>/dev/null
	[ -d $tracing/events/rtrs ] || return 0 # a debug kernel may have none
	echo 1 >$tracing/events/rtrs/enable
	io --seconds 1 --depth 1 --size 65536
	echo 0 >$tracing/events/rtrs/enable
	cp $tracing/trace out
	ends="local=::(ffff:[0-9.]+)? remote=::ffff:$IP_a"
	grep -qE "rtrs_client_request: $ends chunk=[0-9]+ write length=[0-9]+ error=0" out &&
		grep -qE "rtrs_client_done: $ends chunk=[0-9]+ read length=[0-9]+ error=0 latency_ns=[1-9]" out
	verdict $? "its requests are traced"
}

two_paths() {
	put_in $class/add_path "$two" >out 2>err && soon is_up "$two"
	verdict $? "a second path is added"
	put_in $class/add_path "$two" >out 2>err
	[ $? != 0 ]
	verdict $? "but not twice"
	for policy in round-robin min-inflight min-latency; do
		put_in $class/mpath_policy $policy >out 2>err && grep -q "^$policy" $class/mpath_policy
		verdict $? "the policy $policy is set"
		io --seconds 2 --depth 8
		verdict $? "and has IO: $(cat out)"
	done
	put_in $class/mpath_policy round-robin >out 2>err
	first=$(requests "$one") second=$(requests "$two")
	io --seconds 2 --depth 8
	verdict $? "IO over both: $(cat out)"
	[ "$(requests "$one")" -gt "$first" ] && [ "$(requests "$two")" -gt "$second" ]
	verdict $? "round-robin uses both"
}

under_io() {
	io --seconds 6 --depth 8 &
	running=$!
	sleep 1
	note "the second path is disconnected"
	put_in "$class/paths/$two/disconnect" 1 && soon not_up "$two"
	disconnected=$?
	sleep 1
	note "and connected again"
	put_in "$class/paths/$two/reconnect" 1 && soon is_up "$two"
	reconnected=$?
	sleep 1
	note "the first one is removed"
	put_in "$class/paths/$one/remove_path" 1 && soon [ ! -e "$class/paths/$one" ]
	removed=$?
	note "and added again"
	put_in $class/add_path "$one" && soon is_up "$one"
	added=$?
	note "paths stay as they are"
	wait $running
	checked=$?
	verdict $disconnected "a path is disconnected under IO"
	verdict $reconnected "and connected again"
	verdict $removed "another is removed under IO"
	verdict $added "and added again"
	verdict $checked "IO goes on: $(cat out)"
}

cut_link() {
	io --seconds 12 --depth 8 --max-ms $((8000 * TIME_SCALE)) &
	running=$!
	sleep 2
	note "a link is cut"
	link cut eth1 >link.log 2>&1
	sleep 8
	note "and whole again"
	link up eth1 >>link.log 2>&1
	wait $running
	verdict $? "a link is cut and IO moves to the other path: $(cat out)"
	soon is_up "$two"
	verdict $? "its path connects again"
}

use() {
	load_suite rtrs-core rtrs-client rnbd-client >out 2>err
	verdict $? "the client's modules are loaded"
	barrier served
	# The kernel's connection manager looks for the neighbour, and then queues its request for the event that there is one
	# (core/addr.c: rdma_resolve_ip()). If the answer to ARP comes between these, it looks again when the request's time is
	# over: that is 30 s for the kernel's own client, which gives up then. So the neighbour is known before.
	ping -c 1 -w 10 "$IP_a" >out 2>err
	verdict $? "the other host answers"
	one_path
	if [ -b $disk ]; then
		trace_paths
		two_paths
		under_io
		# The kernel's own takes half a minute to notice it, and as long again to connect.
		[ "$SUITE_a$SUITE_b" != oursours ] || cut_link
		trace_ends
		unmap
		verdict $? "the disk is unmapped"
	fi
	unload_client
	verdict $? "the client's modules can go"
	barrier used
}

watch_clock &
watcher=$!
load_rxe && rdma link add rxe0 type rxe netdev eth0 && rdma link add rxe1 type rxe netdev eth1
case $HOST in
a) serve_disk ;;
b) use ;;
esac
kill $watcher
end_of_verdicts
