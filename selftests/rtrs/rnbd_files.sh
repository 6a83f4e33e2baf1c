#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=300 links=faulty segments=2 mem=1024
# files: build/selftests/rtrs_blockio selftests/lib/rnbd.sh selftests/lib/soon.sh /usr/sbin/mkfs.ext4 /usr/bin/fio
# modules: brd ext4
#
# RNBD over RTRS as it is used: a file system on two paths, with files that fio writes and checks; 100 cycles of mapping; an RDMA
# device of the client that is deleted under IO; the server's modules, which go and come again; modules in use, which do not go.

. verdicts
. rnbd.sh

CYCLES=100

seconds() {
	cut -d. -f1 /proc/uptime
}

# Modules that hold a session do not go.
stays() { # module
	! rmmod "$1" >out 2>err && [ -d "/sys/module/$1" ]
}

file_system() {
	mkfs.ext4 -q -F $disk >out 2>err && mkdir -p /mnt && mount -t ext4 $disk /mnt >>out 2>>err
	verdict $? "a file system is made and mounted"
	dd if=/dev/urandom of=/mnt/file bs=64k count=16 >out 2>err
	sum=$(sha256sum </mnt/file)
	umount /mnt >out 2>err && mount -t ext4 $disk /mnt >>out 2>>err && [ "$(sha256sum </mnt/file)" = "$sum" ]
	verdict $? "a file is what was written"
	fio --name=lab --directory=/mnt --size=2m --numjobs=2 --rw=randrw --bsrange=4k-128k --ioengine=libaio --iodepth=8 \
		--direct=1 --verify=crc32c --verify_fatal=1 --do_verify=1 --group_reporting --output-format=terse >out 2>err
	verdict $? "fio reads what it has written"
	umount /mnt >out 2>err
	verdict $? "it is unmounted"
}

cycles() {
	begin=$(seconds)
	for cycle in $(seq $CYCLES); do
		map "$one" && unmap || break
	done
	[ ! -e /sys/block/rnbd0 ] && [ "$cycle" = $CYCLES ]
	verdict $? "it is mapped and unmapped $CYCLES times"
	taken=$(($(seconds) - begin))
	[ $taken -le $((120 * TIME_SCALE)) ]
	verdict $? "which takes $taken s"
}

device_removal() {
	timeout $((90 * TIME_SCALE)) rtrs_blockio $disk --seconds 12 --depth 8 >io 2>&1 &
	running=$!
	sleep 2
	begin=$(seconds)
	rdma link del rxe1 >out 2>err
	verdict $? "a device is deleted under IO"
	taken=$(($(seconds) - begin))
	[ $taken -le $((10 * TIME_SCALE)) ]
	verdict $? "which takes $taken s"
	rdma link add rxe1 type rxe netdev eth1 >out 2>err
	soon is_up "$two"
	verdict $? "its path connects again when the device is back"
	wait $running
	verdict $? "IO goes on: $(cat io)"
}

# Meanwhile there is no path, and RNBD refuses IO; then the disk is the same again.
server_restart() {
	barrier restart
	barrier restarted
	soon is_up "$one"
	verdict $? "the server's modules went and came, and a path connects again"
	soon rtrs_blockio $disk --seconds 1 --depth 4 >out 2>err
	verdict $? "the disk works again: $(cat out)"
}

use() {
	load_suite rtrs-core rtrs-client rnbd-client >out 2>err
	verdict $? "the client's modules are loaded"
	barrier served
	map "$one" "$two"
	verdict $? "a disk is mapped over two paths"
	if [ -b $disk ]; then
		stays rtrs_client && stays rtrs_core
		verdict $? "modules in use stay"
		file_system
		device_removal
		server_restart
		unmap
		verdict $? "the disk is unmapped"
		cycles
	fi
	unload_client
	verdict $? "the client's modules can go"
	barrier used
}

serve_and_restart() {
	serve
	verdict $? "the server's modules are loaded"
	barrier served
	barrier restart
	stays rtrs_server
	verdict $? "a module in use stays"
	rmmod rnbd_server rtrs_server >out 2>err && load_suite rtrs-server rnbd-server >out 2>err
	verdict $? "the server's modules go under a session, and come again"
	barrier restarted
	barrier used
	soon no_session
	verdict $? "no session is left"
	rmmod rnbd_server rtrs_server >out 2>err
	verdict $? "the server's modules can go"
}

load_rxe && rdma link add rxe0 type rxe netdev eth0 && rdma link add rxe1 type rxe netdev eth1
case $HOST in
a) serve_and_restart ;;
b) use ;;
esac
end_of_verdicts
