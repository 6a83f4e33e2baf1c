#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=200 mem=768
# modules: loop
# files: selftests/lib/soon.sh
#
# What the tests rnbd/001 and rnbd/002 of blktests do, written from their description: a loop device of this host is mapped over
# its own address by a session named blktest, and unmapped; then a hundred times. A report of the kernel fails the scene.

. verdicts
. soon.sh

control=/sys/devices/virtual/rnbd-client/ctl/map_device
loop=/dev/loop0

has_disk() {
	grep -qs blktest /sys/block/rnbd0/rnbd/session && [ -b /dev/rnbd0 ]
}

has_no_disk() {
	[ ! -e /sys/block/rnbd0 ]
}

map() {
	echo "sessname=blktest path=ip:$IP_a device_path=$loop" >$control 2>err && soon has_disk
}

unmap() {
	echo normal >/sys/block/rnbd0/rnbd/unmap_device 2>err && soon has_no_disk
}

has_no_session() {
	[ ! -e /sys/class/rtrs-client/blktest ]
}

load_rxe loop >out 2>err && rdma link add rxe0 type rxe netdev eth0 >>out 2>>err &&
	dd if=/dev/urandom of=/tmp/disk bs=65536 count=64 2>>err && losetup $loop /tmp/disk 2>>err &&
	load_suite rtrs-core rtrs-server rtrs-client rnbd-server rnbd-client >>out 2>>err
verdict $? "modules and a loop device are there"
map
verdict $? "rnbd/001: it is mapped"
cmp /tmp/disk /dev/rnbd0 >out 2>err
verdict $? "and read"
unmap
verdict $? "and unmapped"
for cycle in $(seq 100); do
	map && unmap || break
done
has_no_disk && [ "$cycle" = 100 ]
verdict $? "rnbd/002: a hundred times"
soon has_no_session && sleep 1 # as unload_client in lib/rnbd.sh
rmmod rnbd_client rtrs_client rnbd_server rtrs_server >out 2>err
verdict $? "the modules can go"
losetup -d $loop >out 2>err
verdict $? "and the loop device"
end_of_verdicts
