#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Modules of RTRS are replaced by those of another version while host b has a disk of host a over RNBD, which stays as it was
# built: the client's while the disk is in use, which is refused, and when it is unmapped; the server's while the disk is mapped,
# which interrupts it. All data is checked.
#
# lab: hosts=2 time=240 mem=768 segments=2
# files: build/selftests/rtrs_blockio build/packages/result/usr/bin/rds-info
# files: selftests/lib/rnbd.sh selftests/lib/soon.sh selftests/lib/versions.sh
# modules: build/packages/modules-before/{kver}/hawser.ko build/packages/modules-before/{kver}/hawser_verbs.ko
# modules: build/packages/modules-before/{kver}/rtrs-core.ko build/packages/modules-before/{kver}/rtrs-client.ko
# modules: build/packages/modules-before/{kver}/rtrs-server.ko
# modules: brd

. verdicts
. rnbd.sh
. versions.sh

case $HOST in
a) side=server ;;
b) side=client ;;
esac

load() { # version
	load_version "$1" hawser hawser_verbs rtrs-core rtrs-$side && modprobe rnbd-$side && is_version "$1" rtrs_core rtrs_$side
	verdict $? "$side: modules are loaded: $1"
}

# A step that both hosts have reached.
reached() {
	number=$((number + 1))
	barrier "step-$number"
}

io() { # options of rtrs_blockio...
	timeout $((90 * TIME_SCALE)) rtrs_blockio "$disk" --table table "$@" >out 2>err
}

refused() { # module
	! rmmod "$1" >out 2>err && [ -d "/sys/module/$1" ] && grep -qE 'in use|Resource temporarily unavailable' err
	verdict $? "... $1 is not unloaded: $(cat err)"
}

remove_all() {
	rmmod rnbd_$side rtrs_$side rtrs_core hawser_verbs hawser >out 2>err
	verdict $? "$side: modules are unloaded"
}

# The client's: as long as a disk is open its modules stay, and carry its requests.
replace_client() { # version
	reached
	if [ "$HOST" = b ]; then
		io --seconds 5 --depth 8 &
		running=$!
		sleep 2
		for module in rnbd_client rtrs_client rtrs_core hawser; do
			refused $module
		done
		wait $running
		verdict $? "... and the disk works: $(cat out)"
		unmap && soon [ ! -e "$class" ] && sleep 1
		verdict $? "the disk is unmapped"
		remove_all
		load "$1"
		use_disk
	fi
	reached
}

use_disk() {
	map "$one" && io --seconds 2 --depth 8
	verdict $? "the disk is mapped, with its data: $(cat out)"
}

# The server's: RNBD ends its sessions when it is unloaded. The client connects again.
replace_server() { # version
	reached
	if [ "$HOST" = a ]; then
		refused rtrs_server
		remove_all
	fi
	reached
	if [ "$HOST" = b ]; then
		soon not_up "$one"
		verdict $? "the client has lost its path"
		! dd if=$disk of=/dev/null bs=4096 count=1 iflag=direct >out 2>err
		verdict $? "... and the disk reports errors"
	fi
	reached
	[ "$HOST" = b ] || load "$1"
	reached
	if [ "$HOST" = b ]; then
		soon is_up "$one" && soon works
		verdict $? "the disk works again"
		io --seconds 2 --depth 8
		verdict $? "... with its data: $(cat out)"
	fi
	reached
}

works() {
	dd if=$disk of=/dev/null bs=4096 count=1 iflag=direct >out 2>err
}

number=0
load_rxe rdma_cm && rdma link add rxe0 type rxe netdev eth0
[ "$HOST" = b ] || modprobe brd rd_nr=1 rd_size=12288
load before
reached
if [ "$HOST" = b ]; then
	ping -c 1 -w 10 "$IP_a" >out 2>err
	use_disk
fi
replace_client next
replace_server next
replace_client before
replace_client next
if [ "$HOST" = b ]; then
	unmap && soon [ ! -e "$class" ] && sleep 1
	remove_all
fi
reached
[ "$HOST" = b ] || remove_all
end_of_verdicts
