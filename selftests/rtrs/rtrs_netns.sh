#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=150 mem=1024
# files: build/selftests/rtrs_blockio selftests/lib/soon.sh
# modules: brd
#
# A session of RTRS belongs to the namespace of the program that has made it, with all its paths; with Soft-RoCE of a kernel where
# it sends the packets of a namespace from there (7.2). The server is in the first namespace.
#
#       first 10.66.1.1, rxe1 on v1  ------  v2, rxe2 on it, 10.66.1.2 left
#             10.66.3.1, rxe3 on v3  ------  v4, rxe4 on it, 10.66.3.2

. verdicts
. soon.sh

session=/sys/class/rtrs-client/lab
one=ip:10.66.1.2@ip:10.66.1.1 two=ip:10.66.3.2@ip:10.66.3.1
disk=/dev/rnbd0

in_left() {
	ip netns exec left "$@"
}

linked() { # number: of the end here; the next one is in the other namespace
	there=$(($1 + 1))
	ip link add "v$1" type veth peer name "v$there" netns left &&
		ip addr add "10.66.$1.1/24" dev "v$1" && ip link set "v$1" mtu 4500 up &&
		in_left ip addr add "10.66.$1.2/24" dev "v$there" && in_left ip link set "v$there" mtu 4500 up &&
		rdma link add "rxe$1" type rxe netdev "v$1" &&
		in_left rdma link add "rxe$there" type rxe netdev "v$there"
}

map_from() { # command of the namespace...
	"$@" sh -c "echo 'sessname=lab path=$one device_path=/dev/ram0 access_mode=rw' >/sys/class/rnbd-client/ctl/map_device"
}

is_up() { # path
	[ "$(cat "$session/paths/$1/state")" = connected ]
}

requests() { # path
	awk '{ print $1 + $3 }' "$session/paths/$1/stats/rdma"
}

load_rxe && modprobe brd rd_nr=1 rd_size=12288 &&
	load_suite rtrs-core rtrs-server rnbd-server rtrs-client rnbd-client >out 2>err
verdict $? "the modules are loaded"
ip netns add left && linked 1 >out 2>err && linked 3 >>out 2>>err
verdict $? "two links into another namespace, with devices at all ends"

! map_from env >out 2>err
verdict $? "from the first namespace that one's address cannot be connected from"
map_from in_left >out 2>err && soon [ -b $disk ]
verdict $? "from there a disk is mapped"
timeout $((60 * TIME_SCALE)) rtrs_blockio $disk --table table --seconds 3 --depth 8 >out 2>err
verdict $? "and has IO: $(cat out)"
echo "$two" >$session/add_path 2>err && soon is_up "$two"
verdict $? "a path that a program of the first namespace adds is in that of the session"
timeout $((60 * TIME_SCALE)) rtrs_blockio $disk --table table --seconds 3 --depth 8 >out 2>err &&
	[ "$(requests "$one")" -gt 0 ] && [ "$(requests "$two")" -gt 0 ]
verdict $? "IO over both: $(cat out)"
echo 1 >"$session/paths/$two/disconnect" && echo 1 >"$session/paths/$two/reconnect" && soon is_up "$two"
verdict $? "a path is connected again"
timeout $((60 * TIME_SCALE)) rtrs_blockio $disk --table table --seconds 1 >out 2>err
verdict $? "with the same data: $(cat out)"

echo normal >/sys/block/rnbd0/rnbd/unmap_device && soon [ ! -e $session ]
verdict $? "the session ends"
sleep 1 # as unload_client in lib/rnbd.sh
rmmod rnbd_client rtrs_client rnbd_server rtrs_server >out 2>err
verdict $? "the modules can go"
in_left rdma link del rxe2 && in_left rdma link del rxe4 && ip netns del left
verdict $? "and the namespace"
end_of_verdicts
