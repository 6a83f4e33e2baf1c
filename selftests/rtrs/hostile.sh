#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: time=300 mem=1024
# files: build/selftests/rtrs_hostile build/selftests/rtrs_blockio
# modules: brd
#
# Hostile clients and hostile servers, at the level of verbs, on one machine: they break the protocol of RTRS in every way. An
# honest client has a disk all the time, and another one maps, uses and unmaps a disk after each kind. In the end the memory is
# free again.

mkdir -p /tmp/bin
PATH=$PATH:/tmp/bin
control=/sys/class/rnbd-client/ctl/map_device

# Both print what was wrong, on failure.
cat >/tmp/bin/steady <<-END
	#!/bin/sh
	rtrs_blockio \${2:-/dev/rnbd0} --seconds \$1 --depth 4 --size 16384 >/tmp/io 2>&1 || { sed 's/^/# /' /tmp/io; exit 1; }
END
cat >/tmp/bin/honest <<-END
	#!/bin/sh
	echo "sessname=honest path=ip:$IP_a device_path=/dev/ram1 access_mode=rw" >$control || exit 1
	for try in \$(seq 100); do
		[ ! -b /dev/rnbd1 ] || break
		sleep 0.1
	done
	steady 0 /dev/rnbd1 || exit 1
	echo normal >/sys/block/rnbd1/rnbd/unmap_device || exit 1
	steady 0
END
chmod +x /tmp/bin/*

available() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemAvailable/ { print $2 }' /proc/meminfo
}

load_rxe rdma_ucm ib_uverbs
modprobe brd rd_nr=2 rd_size=4096
for disk in ram0 ram1; do # a page of it is memory only once it was written
	dd if=/dev/zero of=/dev/$disk bs=4096 count=1024 2>/dev/null
done
rdma link add rxe0 type rxe netdev eth0
load_suite rtrs-core
modprobe rtrs-server sess_queue_depth=20
load_suite rtrs-server rtrs-client rnbd-server rnbd-client
echo "sessname=steady path=ip:$IP_a device_path=/dev/ram0 access_mode=rw" >$control
honest
before=$(available)

rtrs_hostile "$IP_a" clients honest
rtrs_hostile "$IP_a" servers honest

echo force >/sys/block/rnbd0/rnbd/unmap_device
after=0
# A session is 2.5 MiB, and there were some hundred. Caches of the kernel alone change by up to 15 MiB.
for _ in $(seq 120); do # sessions whose client died end last
	[ "$after" -lt $((before - 32768)) ] || break
	sleep 0.5
	after=$(available)
done
echo "available: $before KiB before, $after KiB after"
[ "$after" -ge $((before - 32768)) ]
while [ -e /sys/class/rtrs-client/honest ] || [ -e /sys/class/rtrs-client/steady ]; do sleep 0.1; done
sleep 1 # as unload_client in lib/rnbd.sh
rmmod rnbd_client rtrs_client rnbd_server rtrs_server
