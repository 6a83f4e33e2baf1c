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

# ---- What explains an error of IO, if there is one. All times are seconds since boot, as in the kernel's log.

note() { # what the scene does now
	echo "$(cut -d' ' -f1 /proc/uptime) s: $*" >>notes
}

# A machine that its host stops for long may lose all paths at once. In a process of its own.
watch_clock() {
	: >notes
	read -r now _ </proc/uptime
	while sleep 0.2; do
		before=$now
		read -r now _ </proc/uptime
		late=$((${now%.*}${now#*.} - ${before%.*}${before#*.} - 20))
		[ $late -lt 80 ] || note "this machine stood still, or was late, for ${late}0 ms"
	done
}

# From here on: states of paths, and requests that end with an error, as hawser traces them; a debug kernel may not. The events of
# the kernel's own client stay off: that of a lost connection reads the name of a device which is not there yet, when a path is
# refused.
trace_paths() {
	tracing=/sys/kernel/tracing
	mount -t tracefs tracefs $tracing 2>/dev/null
	echo >$tracing/trace
	for event in rtrs/rtrs_client_done rtrs/rtrs_server_answer; do
		[ ! -d "$tracing/events/$event" ] || echo 'error != 0' >"$tracing/events/$event/filter"
	done
	trace_events 1
}

trace_events() { # 0 or 1
	for event in rtrs/rtrs_client_done rtrs/rtrs_server_answer rtrs/rtrs_client_path rtrs/rtrs_server_path; do
		[ ! -d "$tracing/events/$event" ] || echo "$1" >"$tracing/events/$event/enable"
	done
}

trace_ends() {
	trace_events 0
	for event in rtrs/rtrs_client_done rtrs/rtrs_server_answer; do
		[ ! -d "$tracing/events/$event" ] || echo 0 >"$tracing/events/$event/filter"
	done
}

explain() {
	echo "# host $HOST at $(cut -d' ' -f1 /proc/uptime) s"
	sed 's/^/# /' notes
	[ -z "$tracing" ] || grep -v '^#' "$tracing/trace" | tail -n 60 | sed 's/^/# trace: /'
	dmesg | grep -iE 'rnbd|rtrs|rxe|hawser' | tail -n 60 | sed 's/^/# dmesg: /'
}

explain_client() {
	for file in /sys/block/rnbd0/rnbd/state "$class"/paths/*/state* "$class"/paths/*/last_error "$class"/paths/*/stats/rdma \
		"$class"/paths/*/stats/reconnects; do
		[ ! -r "$file" ] || echo "# $file: $(cat "$file")"
	done
	explain
}
