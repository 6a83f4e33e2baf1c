#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=150 mem=1024
# files: build/selftests/data build/static/rds-info build/static/rds-ping /usr/bin/jq selftests/lib/soon.sh
#
# RDS over RDMA between namespaces, with Soft-RoCE of a kernel where it sends the packets of a namespace from there (7.2). First
# all namespaces share the devices, so that each uses those of its interfaces. Then the mode is exclusive: Soft-RoCE's devices
# belong to the first namespace, and the kernel cannot move them (no disassociate_ucontext), so that the others have none.
#
#       left 10.66.0.1, rxe1 on v1  ------  v2, rxe2 on it, 10.66.0.2 right

. verdicts
. soon.sh

patience=$((20 * TIME_SCALE))

in_ns() { # namespace command...
	ns=$1
	shift
	ip netns exec "$ns" "$@"
}

end_of() { # namespace number
	ip netns add "$1" && ip link set "v$2" netns "$1" &&
		in_ns "$1" ip link set lo up &&
		in_ns "$1" ip addr add "10.66.0.$2/24" dev "v$2" &&
		in_ns "$1" ip addr add "fd66::$2/64" dev "v$2" nodad &&
		in_ns "$1" ip link set "v$2" mtu 4500 up &&
		in_ns "$1" rdma link add "rxe$2" type rxe netdev "v$2"
}

namespaces() {
	ip link add v1 type veth peer name v2 && end_of left 1 && end_of right 2
}

gone() {
	! ip link show v1 && ! rdma link show | grep -q rxe
} >>out 2>>err

# The sockets that it leaves behind keep their namespaces connected.
keeps_pinging() { # namespace address
	ip netns exec "$1" rds-ping -S 1 -i 200ms -W $patience "$2" >"$1.ping" 2>&1 &
	pinging="$pinging $!"
}

pings() { # namespace address
	in_ns "$1" rds-ping -S 1 -c 3 -i 200ms -W $patience "$2" >out 2>err
}

exchange() {
	in_ns right data --serve 10.66.0.2 fd66::2 >served.out 2>&1 &
	server=$!
	in_ns left data --client 10.66.0.1 10.66.0.2 fd66::1 fd66::2 >client.out 2>err
	verdict $? "messages of all sizes come back from the other namespace"
	wait $server
	verdict $? "which has received them"
	[ "$(grep -c '^ok ' client.out)" -gt 1 ]
	verdict $? "$(grep -c '^ok ' client.out) tests of data"
}

ping_each_other() {
	pinging=
	keeps_pinging right 10.66.0.1
	pings left 10.66.0.2
	verdict $? "ping from the one"
	keeps_pinging left 10.66.0.2
	pings right 10.66.0.1
	verdict $? "and from the other"
}

shown() {
	for ns in left right; do
		in_ns $ns rds-info -In --json >out 2>err
		jq -e '(.connections | length > 0 and all(.transport == "infiniband")) and
			(.ib_connections | length > 0)' out >/dev/null
		verdict $? "all of it went over RDMA, as $ns shows"
	done
	rds-info -In --json >out 2>err
	jq -e '.connections == [] and .ib_connections == []' out >/dev/null
	verdict $? "the first namespace has no connection"
	! rds-ping -S 1 -c 1 -W 3 10.66.0.2 >out 2>err
	verdict $? "and reaches none of them"
	# shellcheck disable=SC2086 # several
	kill $pinging && wait $pinging
}

end_namespaces() {
	ip netns del left && ip netns del right && soon gone
	verdict $? "the namespaces end, with their interfaces and devices"
}

load_rxe && load_suite rds rds_rdma >out 2>err
verdict $? "the modules are loaded"
namespaces >out 2>err
verdict $? "two namespaces with a device each"
exchange
ping_each_other
shown
end_namespaces

rdma system set netns exclusive >out 2>err && rdma system show >out && grep -q 'netns exclusive' out
verdict $? "devices are exclusive"
namespaces >out 2>err
verdict $? "two namespaces, whose devices are of the first one"
keeps_pinging right 10.66.0.1
! in_ns left rds-ping -S 1 -c 1 -W 3 10.66.0.2 >out 2>err
verdict $? "they use no device: $(cat err)"
rdma link show >out 2>err
[ "$(grep -c rxe out)" = 2 ]
verdict $? "of the two that there are"
# shellcheck disable=SC2086
wait $pinging || : # judged by what it printed
cat right.ping >out
end_namespaces

soon rmmod rds_rdma >out 2>err
verdict $? "the modules can go"
end_of_verdicts
