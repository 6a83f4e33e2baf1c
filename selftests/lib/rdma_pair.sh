# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
#       . rdma_pair.sh	two Soft-RoCE devices of this machine, rx1 at 10.77.1.1 and rx2 at 10.77.2.1, joined by a virtual link
#       rdma_pair 3 4	two more, with these numbers
#
# The routes that make an address local are in tables that only packets from the link are looked up in. So packets from one
# address to the other take the link, and no RDS takes the other end for this host itself.

rdma_end() { # its own and the other end's number
	sysctl -qw "net.ipv4.conf.v$1.accept_local=1" "net.ipv4.conf.v$1.rp_filter=0"
	ip rule add pref 5 iif "v$1" lookup "20$1"
	ip route add local "10.77.$1.1" dev "v$1" table "20$1"
	ip rule add pref 10 from "10.77.$1.1" to "10.77.$2.1" lookup "10$1"
	ip route add "10.77.$2.1" dev "v$1" src "10.77.$1.1" table "10$1"
	ip neigh add "10.77.$2.1" lladdr "$(cat "/sys/class/net/v$2/address")" dev "v$1"
	ip route del local "10.77.$1.1" table local
	rdma link add "rx$1" type rxe netdev "v$1"
}

rdma_pair() { # the numbers of its ends
	ip link add "v$1" type veth peer name "v$2"
	for end; do
		ip addr add "10.77.$end.1/24" dev "v$end"
		ip link set "v$end" mtu 4500 up
	done
	rdma_end "$1" "$2"
	rdma_end "$2" "$1"
}

ip link set lo up
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.all.accept_local=1
# Its CRC is a part of every packet: with a processor's instruction for it, as most hosts have.
modprobe -a crc32_pclmul 2>/dev/null
load_rxe
rdma_pair 1 2
