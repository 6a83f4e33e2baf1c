#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The second part of `make run`: RDS over RDMA. Each host gets an RDMA device in software (Soft-RoCE) on its
# interface; the same programs then use RDMA, which the sequence numbers of the connections prove.
#
#       a $IP_a  ------ eth0, with rxe0 on it ------  b $IP_b
#
# lab: hosts=2 time=150 share
# files: build/static/rds-ping build/static/rds-info build/static/rds-stress /usr/bin/jq

. verdicts

# Only host a prints.
show() {
	[ "$HOST" = b ] || say "$*"
}

number() { # expression-of-jq
	jq -r "$1" out
}

# How many messages the connections between a and b were given, over one transport.
given() { # transport
	rds-info -n --json >out 2>err
	jq -r --arg transport "$1" '[.connections[] | select(.transport == $transport and .remote_address == env.IP_b) |
		.next_tx - 1] | add // 0' out
}

stress() { # options...
	show "$ rds-stress -s $IP_b $*"
	if [ "$HOST" = b ]; then
		rds-stress --json >out 2>err </dev/null
	else
		rds-stress -s "$IP_b" --connect-retries 20 --json "$@" >out 2>err </dev/null
	fi
	[ $? = 0 ] && jq -e '.good and .counts.requests_sent > 0 and .counts.acks_received == .counts.requests_sent and
		([.counts | .lost, .duplicated, .corrupted] | all(. == 0))' out >/dev/null
	verdict $? "rds-stress over RDMA $*"
	more=$(number '.counts.requests_sent + .counts.acks_sent')
	sent=$((sent + ${more:-0}))
	show "$(number '.counts | "  \(.requests_sent) messages went to b and \(.requests_received) came from b: " +
		"\(.lost) lost, \(.duplicated) doubled, \(.corrupted) damaged"')"
	barrier "after $*"
}

show ""
show "Now over RDMA. A driver of the kernel (rdma_rxe) makes an RDMA device of each machine's interface."
load_rds >out 2>err
verdict $? "the modules are loaded"
show "$ rdma link add rxe0 type rxe netdev eth0"
load_rxe >out 2>err && rdma link add rxe0 type rxe netdev eth0 >>out 2>>err
verdict $? "the device"
show "$ modprobe rds_rdma"
load_suite rds_rdma >out 2>err
verdict $? "the module of RDMA loads"
show "  in the kernel now: $(awk '$1 ~ /^(hawser|rds|rdma)/ { print $1 }' /proc/modules | sort | tr '\n' ' ')"
barrier "RDMA loaded"

sent=0
if [ "$HOST" = a ]; then
	over_tcp=$(given tcp)
	show "$ rds-ping -c 5 $IP_b        # the same command as over TCP"
	rds-ping -c 5 -i 100ms -W 20 --json "$IP_b" >out 2>err </dev/null
	jq -e '.received == 5' out >/dev/null
	verdict $? "rds-ping over RDMA"
	sent=$(number .sent)
	show "$(number '"  \(.received) of \(.sent) came back, the fastest after \(.rtt_us.min | round) us"')"
fi
barrier "RDMA pinged"
stress -T 2 -t 2 -d 4 -q 4096 -v
stress -T 2 -t 1 -d 2 -q 65536 -v
show "Each now gives the other a key to a part of its memory, and reads and writes what it has a key to; -v checks the bytes."
stress -T 2 -t 1 -d 2 -D 64K -v
jq -e '.counts.rdma_bytes_in > 0 and .counts.rdma_bytes_out > 0' out >/dev/null
verdict $? "each read and wrote the other's memory"
show "$(number '.counts | "  a wrote \(.rdma_bytes_out / 1024 | round) KiB into the memory of b, and read " +
	"\(.rdma_bytes_in / 1024 | round) KiB of it"')"

if [ "$HOST" = a ]; then
	show "$ rds-info -n             # each message has a number on its connection"
	over_rdma=$(given infiniband)
	more_over_tcp=$(($(given tcp) - over_tcp))
	[ "$over_rdma" -ge "$sent" ] && [ "$more_over_tcp" = 0 ]
	verdict $? "$over_rdma messages over RDMA, of $sent, and $more_over_tcp over TCP"
	show "  the programs here sent $sent messages: $over_rdma went over RDMA, $more_over_tcp over TCP"
	show "$ rds-info -I             # connections over RDMA"
	rds-info -I --json >out 2>err
	jq -e '[.ib_connections[] | select(.remote_address == env.IP_b)] | length == 1' out >/dev/null
	verdict $? "rds-info -I"
	show "$(number '.ib_connections[] | "  \(.local_address) to \(.remote_address), with room for \(.max_send_wr) requests " +
		"and \(.max_recv_wr) receives"')"
	show ""
fi
barrier "RDMA counted"

end_of_verdicts
