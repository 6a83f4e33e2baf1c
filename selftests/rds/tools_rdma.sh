#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# rds-stress with RDMA, over Soft-RoCE between two hosts: every way of offering memory, with checks of the contents; and the same
# with the protocol of rds-tools' rds-stress at one side.
#
# lab: hosts=2 time=200
# files: build/static/rds-ping build/static/rds-info build/static/rds-stress build/selftests/rdma_example /usr/bin/jq
# files: build/selftests/rds-tools-stress

. verdicts

# The same run from either side.
stress() { # expression-of-jq options-of-a...
	expression=$1
	shift
	if [ "$HOST" = b ]; then
		rds-stress --json >out 2>err
	else
		rds-stress -s "$IP_b" --connect-retries 20 --json -T 2 -v "$@" >out 2>err
	fi
	[ $? = 0 ] &&
		jq -e ".good and .counts.acks_received == .counts.requests_sent and ($expression)" out >/dev/null
	verdict $? "stress $*: $expression"
	barrier "after $*"
}

# Ours on the host that is named, rds-tools' on the other.
foreign() { # our-host options-of-a...
	ours=$1
	shift
	program=rds-tools-stress
	[ "$HOST" != "$ours" ] || program="rds-stress --json"
	if [ "$HOST" = b ]; then
		$program -r "$IP_b" -p 4500 >out 2>err
	else
		sleep 1
		$program -r "$IP_a" -s "$IP_b" -p 4500 -T 2 -v -D 4096 "$@" >out 2>err
	fi
	[ $? = 0 ]
	verdict $? "rds-tools' rds-stress and ours on $ours, $*: exit 0"
	if [ "$HOST" = "$ours" ]; then
		jq -e ".good and .counts.requests_sent > 15 and .counts.requests_received > 15 and $both" out >/dev/null
	else
		grep -qE '^requests [1-9][0-9]+ acks [1-9][0-9]+ operations [1-9][0-9]*$' out
	fi
	verdict $? "... all arrived, and both read and wrote"
	barrier "rds-tools' with ours on $ours"
}

load_suite rds rds_rdma || exit 1
load_rxe ib_uverbs rdma_ucm || exit 1
rdma link add rxe0 type rxe netdev eth0 || exit 1
barrier "linked"
if [ "$HOST" = a ]; then
	rds-ping -c 3 -i 200ms -W 20 "$IP_b" >out 2>err
	verdict $? "ping over RDMA"
	rds-info -In --json >out 2>err
	jq -e '(.connections[0] | .transport == "infiniband" and .connected and .paths == []) and
		(.ib_connections[0] | .remote_address == env.IP_b and .max_send_wr > 0)' out >/dev/null
	verdict $? "the connection over RDMA"
fi
barrier "pinged"
# The program of rds-rdma(7).
if [ "$HOST" = b ]; then
	rdma_example serve "$IP_b" >example.out 2>&1 &
	until rds-info -k | grep -q " 4711 "; do sleep 0.1; done
	barrier "served"
	barrier "asked"
	kill $!
else
	barrier "served"
	timeout $((20 * TIME_SCALE)) rdma_example ask "$IP_a" "$IP_b" >out 2>err
	[ "$(cat out)" = hello ]
	verdict $? "the program of the manual has what the peer wrote"
	barrier "asked"
fi
both='.counts.rdma_bytes_in > 0 and .counts.rdma_bytes_out > 0'
stress '.counts.requests_sent > 5 and .counts.rdma_bytes_in == 0'
stress "$both" -D 4K
stress '.counts.rdma_bytes_in > 0 and .counts.rdma_bytes_out == 0' -D 64K -d 4 -M 1
stress '.counts.rdma_bytes_in == 0 and .counts.rdma_bytes_out > 0' -D 64K -d 4 -M 2 -I 4
stress "$both" -D 8K -d 2 --rdma-use-once 1 -t 2
stress "$both" -D 8K -d 2 --rdma-cache-mrs 1
stress "$both" -D 8K -d 2 --rdma-alignment 12
foreign a -t 2 -d 4 -q 2000
foreign b -t 2 -d 4 -q 2000 -I 3
foreign a -d 2 --rdma-use-once 1
# The kernel's own refuses to register memory by a call.
if [ "$SUITE_a$SUITE_b" = oursours ]; then
	stress "$both" -D 8K -d 2 -t 2 --rdma-use-get-mr 1
	foreign a -d 2 --rdma-use-get-mr 1
	foreign b -d 2 -G
fi

end_of_verdicts
