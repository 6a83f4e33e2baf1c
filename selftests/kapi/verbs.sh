#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# kapi's verbs between two Soft-RoCE devices of one machine: a pair of virtual Ethernet devices whose packets are kept off lo.
#
# lab: hosts=1 time=230

. verdicts

one_way() { # from to: its device and that of the other end, by number
	mac=$(cat "/sys/class/net/v$2/address")
	sysctl -qw "net.ipv4.conf.v$1.accept_local=1" "net.ipv4.conf.v$1.rp_filter=0"
	ip rule add pref 5 iif "v$1" lookup local
	ip rule add pref 10 from "10.77.$1.1" to "10.77.$2.1" lookup "10$1"
	ip route add "10.77.$2.1" dev "v$1" src "10.77.$1.1" table "10$1"
	ip neigh add "10.77.$2.1" lladdr "$mac" dev "v$1"
	ip -6 rule add pref 5 iif "v$1" lookup local
	ip -6 rule add pref 10 from "fd77:$1::1" to "fd77:$2::1" lookup "10$1"
	ip -6 route add "fd77:$2::1" dev "v$1" src "fd77:$1::1" table "10$1"
	ip -6 neigh add "fd77:$2::1" lladdr "$mac" dev "v$1"
	ip -6 neigh add "fe80::77:$2" lladdr "$mac" dev "v$1"
}

link_up() {
	sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.accept_local=1
	ip link add v1 type veth peer name v2
	for end in 1 2; do
		ip addr add "10.77.$end.1/24" dev "v$end"
		ip addr add "fd77:$end::1/64" dev "v$end" nodad
		ip addr add "fe80::77:$end/64" dev "v$end" nodad
		ip link set "v$end" mtu 4500 up
	done
	one_way 1 2
	one_way 2 1
	for family in -4 -6; do
		ip $family rule add pref 100 lookup local
		ip $family rule del pref 0
	done
}

# Runs the tests of a name, or all, and says what came out.
tests() { # name-or-nothing parameters
	dmesg -c >/dev/null
	name=$1
	[ $# = 0 ] || shift
	(ulimit -l 64 && exec modprobe kapi_verbs_test only="$name" "$@")
	rmmod kapi_verbs_test || true
	dmesg | grep 'kapi_test:' | sed 's/^.*kapi_test: /# /'
	! dmesg | grep -q 'kapi_test: not ok' && dmesg | grep -q 'kapi_test: ok'
}

load_rxe && link_up || exit 1
rdma link add rx1 type rxe netdev v1 && rdma link add rx2 type rxe netdev v2 || exit 1
tests "" >out 2>err
verdict $? "kapi's verbs"
tests "" >out 2>err
verdict $? "once more: nothing is left behind"

tc qdisc add dev v1 root netem loss 10%
tests registrations >out 2>err
verdict $? "registrations while packets are lost"
tc qdisc del dev v1 root

# The device goes when the test says so, and comes again.
removed() { # test name
	tests "$1" >out 2>err &
	for _ in $(seq 300); do
		dmesg | grep -q 'kapi_test: remove rx2' && break
		sleep 0.3
	done
	sleep 1
	rdma link del rx2 2>>err
	verdict $? "a device is removed $2"
	wait $!
	verdict $? "kapi's verbs while it is removed $2"
	rdma link add rx2 type rxe netdev v2
}

removed removed_under_load "under load"
removed removed_while_resolving "while an address is looked for"
tests messages >out 2>err
verdict $? "a device that came again"

# Only while there is no other namespace the mode can be changed.
rdma system set netns exclusive 2>err && unshare -n sleep 1000 &
for _ in $(seq 100); do
	sleep 0.3
	other=$(pidof sleep) && break
done
tests exclusive other_ns="${other%% *}" >out 2>>err
verdict $? "a namespace that may not use a device"
killall sleep

rmmod hawser_verbs >out 2>err
verdict $? "the module can go"
end_of_verdicts
