#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=150 mem=768
# modules: brd
# files: selftests/lib/soon.sh
#
# Servers that offer few permits: RNBD has one of them from before a disk is opened until it is made, for which its first sectors
# are read. More disks are mapped at a time than there are permits, over the own address of this host.

. verdicts
. soon.sh

disks=6

map() { # disk. By timeout, since the shell that it starts has the names of all errors.
	disk="sessname=lab path=ip:$IP_a device_path=/dev/ram$1 access_mode=rw"
	timeout $((60 * TIME_SCALE)) sh -c "echo '$disk' >/sys/class/rnbd-client/ctl/map_device"
}

map_all() {
	for which in $(seq 0 $((disks - 1))); do
		map "$which" 2>>err &
	done
	soon has_disks $disks
}

has_disks() { # number
	[ "$(find /sys/block -name 'rnbd*' | wc -l)" = "$1" ]
}

has_no_session() {
	[ ! -e /sys/class/rtrs-client/lab ]
}

unmap_all() {
	for disk in /sys/block/rnbd*; do
		echo normal >"$disk/rnbd/unmap_device" 2>>err
	done
	soon has_disks 0 && soon has_no_session && sleep 1 # as unload_client in lib/rnbd.sh
}

serve() { # queue depth
	load_suite rtrs-core >out 2>err && modprobe rtrs-server sess_queue_depth="$1" >>out 2>>err &&
		load_suite rtrs-server rtrs-client rnbd-server rnbd-client >>out 2>>err
}

unload() {
	rmmod rnbd_client rtrs_client rnbd_server rtrs_server >out 2>err
}

load_rxe brd >out 2>err && modprobe brd rd_nr=$disks rd_size=4096 && rdma link add rxe0 type rxe netdev eth0 >>out 2>>err
verdict $? "a device and disks are there"
for depth in 4 2; do
	serve $depth
	verdict $? "the modules are there, the server's queue depth is $depth"
	map_all
	verdict $? "$disks disks are mapped at a time"
	for which in $(seq 0 $((disks - 1))); do
		dd if="/dev/rnbd$which" of=/dev/null bs=65536 iflag=direct 2>>err || break
	done
	verdict $? "and read"
	unmap_all
	verdict $? "and unmapped"
	unload
	verdict $? "the modules can go"
done

serve 1
verdict $? "the modules are there, the server's queue depth is 1"
! map 0 >out 2>err && grep -q 'Cannot allocate memory' err
verdict $? "no disk is mapped, and the user does not wait: $(cat err)"
dmesg | grep -q 'lab: the server.s queue depth of 1 leaves no permit for admin requests'
verdict $? "the log says why"
soon has_no_session && sleep 1
unload
verdict $? "the modules can go"
end_of_verdicts
