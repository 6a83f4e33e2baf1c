#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=150 segments=2 mem=768
# files: build/selftests/rtrs_sysfs selftests/rtrs/sysfs.table
# modules: brd
#
# Each file of RTRS in sysfs, client and server on one machine: its name, mode and format, the values that it accepts and those
# that it refuses, with their errors; and the parameters of the server's module. The table is sysfs.table.

class=/sys/class
path=ip:$IP_a@ip:$IP_a
table=/lab/files/sysfs.table

load_rxe brd
rdma link add rxe0 type rxe netdev eth0
rdma link add rxe1 type rxe netdev eth1
load_suite rtrs-core
modprobe rtrs-server && rmmod rtrs-server # with what it needs
case $SUITE in
ours) where=/updates/ ;;
*) where=/rnbd-kernel/ ;;
esac
rtrs_sysfs $table "module=$(find /lab/modules /lib/modules -path "*$where*" -name rtrs-server.ko 2>/dev/null | head -n 1)"

load_suite rtrs-server rtrs-client rnbd-server rnbd-client
echo "sessname=lab path=$path device_path=/dev/ram0 access_mode=rw" >$class/rnbd-client/ctl/map_device
rtrs_sysfs $table client=$class/rtrs-client/lab "client-path=$class/rtrs-client/lab/paths/$path" \
	"client-stats=$class/rtrs-client/lab/paths/$path/stats" "server=$class/rtrs-server/lab" \
	"server-path=$class/rtrs-server/lab/paths/$path" "server-stats=$class/rtrs-server/lab/paths/$path/stats" \
	"second=$class/rtrs-client/lab/paths/ip:$IP1_a@ip:$IP1_a"
echo force >/sys/block/rnbd0/rnbd/unmap_device
while [ -e $class/rtrs-client/lab ]; do sleep 0.1; done
sleep 1 # as unload_client in lib/rnbd.sh
rmmod rnbd_client rtrs_client rnbd_server rtrs_server
