#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=240 links=faulty
# files: build/selftests/data build/selftests/xfer build/selftests/regions build/static/rds-info build/static/rds-ping /usr/bin/jq
#
# RDS over RDMA, on Soft-RoCE: an echo of all sizes from either side; memory that the hosts give each other; both at full rate; a
# link that is cut and comes back; a device that goes and comes again; and the module can go.

load_rxe && rdma link add rxe0 type rxe netdev eth0
load_suite rds rds_rdma
settings=$(cd /proc/sys/net/rds/ib && grep -s . * | tr '\n' ' ')
if [ "$HOST" = a ] && [ "$SUITE" = ours ]; then
	echo 300 >/proc/sys/net/rds/ib/max_send_wr
	echo 100 >/proc/sys/net/rds/ib/max_recv_wr
fi
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
barrier regions
case $HOST in
a) regions --first "$IP_a" "$IP_b" ;;
b) regions --second "$IP_b" "$IP_a" ;;
esac
barrier both
flow() { # seconds options-of-xfer...
	seconds=$1
	shift
	case $HOST in
	a) xfer --own "$IP_a" --peer "$IP_b" --seconds "$seconds" "$@" ;;
	b) xfer --own "$IP_b" --peer "$IP_a" --seconds "$seconds" "$@" ;;
	esac
}
flow 4 --size 64-65536
barrier cut
disturber=
if [ "$HOST" = a ]; then
	{
		sleep 2
		link cut
		sleep 3
		link up
	} >/dev/null &
	disturber=$!
fi
flow 10 --rate 200 --size 64-20000 --max-gap 15000
[ -z "$disturber" ] || wait "$disturber"
# A device of the kernel's own waits for ever for what it has not received.
barrier device
disturber=
if [ "$HOST" = a ] && [ "$SUITE" = ours ]; then
	{
		sleep 2
		rdma link del rxe0
		sleep 1
		rdma link add rxe0 type rxe netdev eth0
	} >/dev/null &
	disturber=$!
fi
flow 8 --rate 200 --size 64-20000 --max-gap 15000
[ -z "$disturber" ] || wait "$disturber"
barrier judged

. verdicts

rds-info -n --json >out 2>err
jq -e '[.connections[] | select(.transport != "infiniband")] == [] and (.connections | length > 0)' out >/dev/null
verdict $? "all of it went over RDMA"
echo "$settings" >out
[ "$(echo "$settings" | sed 's/\(max_recv_allocation\):[1-9][0-9]*/\1/')" = \
	"flow_control:0 max_recv_allocation max_recv_wr:1024 max_send_wr:256 max_unsignaled_wr:16 " ]
verdict $? "net.rds.ib.* have the defaults of the kernel's own"
rds-info -c --json >out 2>err
jq -e '.counters | [.ib_tx_cq_event, .ib_rx_cq_event, .ib_rx_total_frags, .ib_rx_total_incs, .ib_rx_refill_from_cq] |
	all(. > 0)' out >/dev/null
verdict $? "the counters of RDMA count"
# What the queues have room for: as was set on a; the kernel's own and ours have the same default for sending. Our rings are small
# when those of other connections take much of a small machine.
case $HOST in a) peer=b ;; b) peer=a ;; esac
eval "own4=\$IP_$HOST peer4=\$IP_$peer own6=\$IP6_$HOST peer6=\$IP6_$peer"
case $HOST-$SUITE in a-ours) wrs="^300 (100|16)$" ;; b-ours) wrs="^260 (128|16)$" ;; *) wrs="^256 1024$" ;; esac
shows() { # own peer own-gid peer-gid
	jq -e --arg own "$1" --arg peer "$2" --arg own_gid "$3" --arg peer_gid "$4" --arg wrs "$wrs" '
		[.ib_connections[] | select(.local_address == $own and .remote_address == $peer)] | length == 1 and
		(.[0] | .local_gid == $own_gid and .remote_gid == $peer_gid and
			("\(.max_send_wr) \(.max_recv_wr)" | test($wrs)) and
			.max_send_sge == 8 and .tos == 0 and .service_level == 0)' out >/dev/null
}
# A connection that was lost is made again for those who use it.
patience="-W $((10 * TIME_SCALE))"
rds-ping -c 1 $patience -I "$own4" "$peer4" >out 2>err && rds-ping -c 1 $patience -I "$own6" "$peer6" >out 2>err
verdict $? "both connections are used again"
rds-info -aI --json >out 2>err
shows "$own4" "$peer4" "$own4" "$peer4"
verdict $? "the connection of IPv4 in RDS_INFO_IB_CONNECTIONS"
shows "$own6" "$peer6" "$own6" "$peer6"
verdict $? "the connection of IPv6 in RDS6_INFO_IB_CONNECTIONS"
rds-info -I >out 2>err && grep -q "$own4 *$peer4 *0 *0 *$own4 *$peer4" out
verdict $? "rds-info -I prints it"
barrier seen
if [ "$SUITE" = ours ]; then
	rmmod rds_rdma >out 2>err && rmmod rds >>out 2>>err
	verdict $? "the modules can go"
	rdma link del rxe0 >out 2>err
	verdict $? "and the device"
fi
end_of_verdicts
