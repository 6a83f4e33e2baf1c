#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The last part of `make run`: a file system on a disk of another machine, over two paths, one of which is cut.
#
#       a $IP_a   ------ eth0, with rxe0 on it ------  b $IP_b
#         $IP1_a  ------ eth1, with rxe1 on it ------    $IP1_b
#
# lab: hosts=2 time=200 links=faulty segments=2 mem=768
# files: /usr/sbin/mkfs.ext4 selftests/lib/soon.sh
# modules: brd ext4

. verdicts
. soon.sh

# Only host b prints.
show() {
	[ "$HOST" = a ] || say "$*"
}

# Shows a command and runs it.
try() { # what command...
	what=$1
	shift
	show "$ $*"
	"$@" >out 2>err
	verdict $? "$what"
}

write_in() { # text file
	show "$ echo $1 > $2"
	echo "$1" >"$2" 2>err
	verdict $? "$2 takes it"
}

states() {
	for path in /sys/class/rtrs-client/story/paths/*; do
		show "  ${path##*/}: $(cat "$path/state")"
	done
}

has_states() { # number-of-paths state
	[ "$(grep -lx "$2" /sys/class/rtrs-client/story/paths/*/state | wc -l)" = "$1" ]
}

client() {
	show ""
	show "Now blocks: the kernel's own RNBD, unmodified, over RTRS. Machine a exports a disk in its memory."
	barrier exported
	try "the modules load" load_suite rtrs-core rtrs-client rnbd-client
	write_in "sessname=story path=ip:$IP_b@ip:$IP_a path=ip:$IP1_b@ip:$IP1_a device_path=/dev/ram0 access_mode=rw" \
		/sys/class/rnbd-client/ctl/map_device
	soon [ -b /dev/rnbd0 ]
	verdict $? "the disk is there"
	states
	try "a file system" mkfs.ext4 -q -F /dev/rnbd0
	mkdir -p /mnt
	try "it is mounted" mount -t ext4 /dev/rnbd0 /mnt
	show "Half of a file is written, then the second cable is cut, and the other half is written:"
	head -c 2097152 /dev/urandom >file
	head -c 1048576 file >/mnt/file && sync
	link cut eth1 >out 2>&1
	verdict $? "the cable is cut"
	tail -c 1048576 file >>/mnt/file && sync && cmp file /mnt/file >out 2>err
	verdict $? "the file is whole"
	soon has_states 1 connected
	verdict $? "one path is lost"
	states
	link up eth1 >out 2>&1
	show "The cable is repaired:"
	soon has_states 2 connected
	verdict $? "both paths are connected again"
	states
	try "it is unmounted" umount /mnt
	try "and mounted again" mount -t ext4 /dev/rnbd0 /mnt
	try "with its file" cmp file /mnt/file
	try "it is unmounted" umount /mnt
	write_in normal /sys/block/rnbd0/rnbd/unmap_device
	barrier unmapped
}

load_rxe && rdma link add rxe0 type rxe netdev eth0 && rdma link add rxe1 type rxe netdev eth1
if [ "$HOST" = a ]; then
	modprobe brd rd_nr=1 rd_size=12288 >out 2>err && load_suite rtrs-core rtrs-server rnbd-server >>out 2>>err
	verdict $? "the disk is exported"
	barrier exported
	barrier unmapped
else
	client
fi
end_of_verdicts
