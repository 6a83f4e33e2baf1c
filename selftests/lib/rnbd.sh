# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# For scenes that map disks over RNBD: one session, `lab`, and one disk, which is /dev/ram0 of host a.
#
# Output of what fails is left in the files out and err, which `verdict` prints.

. soon.sh

# For the scenes that include this file.
# shellcheck disable=SC2034
class=/sys/class/rtrs-client/lab
disk=/dev/rnbd0
# shellcheck disable=SC2034
one="ip:$IP_b@ip:$IP_a" two="ip:$IP1_b@ip:$IP1_a"

# What a program writes to a file of sysfs, and whether it was taken.
put_in() { # file text
	echo "$2" >"$1"
}

map() { # path...
	paths=$(printf 'path=%s ' "$@")
	put_in /sys/class/rnbd-client/ctl/map_device "sessname=lab ${paths}device_path=/dev/ram0 access_mode=rw" >out 2>err ||
		return 1
	soon [ -b "$disk" ]
}

unmap() {
	put_in /sys/block/rnbd0/rnbd/unmap_device normal >out 2>err && soon [ ! -e /sys/block/rnbd0 ]
}

# RNBD closes its session in a work that nothing waits for, after the disk has gone: if it is unloaded before that work has ended,
# its list of sessions is not empty, which it warns of (rnbd_destroy_sessions). The last that can be seen of it is RTRS's session.
unload_client() {
	soon [ ! -e "$class" ] && sleep 1 && rmmod rnbd_client rtrs_client >out 2>err
}

is_up() { # path
	[ "$(cat "$class/paths/$1/state")" = connected ]
}

not_up() { # path
	! is_up "$1"
}

# The kernel's own names ctl, which is no session.
no_session() {
	ls /sys/class/rtrs-server >out 2>err
	! grep -qv '^ctl$' out
}

# Host a.
serve() {
	modprobe brd rd_nr=1 rd_size=12288 >out 2>err && load_suite rtrs-core rtrs-server rnbd-server >>out 2>>err
}
