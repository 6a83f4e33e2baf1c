# SPDX-License-Identifier: GPL-2.0
#
# For scenes with a fuzzer: at its end the modules unload, and the memory is free again.
#
#       . unload.sh
#       . afterwards.sh
#       before=$(held)
#       ...
#       all_gone "$before" MODULE...

LIMIT_KIB=8192

# KiB that the kernel holds, without temporary caches such as each processor's lists of free pages and empty slabs. A
# debug kernel delays frees, and finds leaks by itself.
held() {
	[ ! -e /sys/kernel/debug/kmemleak ] || { echo 0; return; }
	echo 3 >/proc/sys/vm/drop_caches
	find /sys/kernel/slab -maxdepth 1 -type d | while read -r cache; do
		[ ! -w "$cache/shrink" ] || echo 1 >"$cache/shrink" || :
	done
	awk '/^MemTotal:/ { sum += $2 } /^(MemFree|Buffers|Cached|SReclaimable|AnonPages|PageTables):/ { sum -= $2 }
		$1 == "count:" { sum -= 4 * $2 } END { print sum }' /proc/meminfo /proc/zoneinfo
}

# Where the modules pin programs' pages: none is pinned any more.
none_pinned() {
	echo 1 >/proc/sys/vm/stat_refresh # what each processor has counted
	pinned=$(awk '$1 == "nr_foll_pin_acquired" { sum += $2 } $1 == "nr_foll_pin_released" { sum -= $2 }
		END { print sum + 0 }' /proc/vmstat)
	[ "$pinned" != 0 ] || return 0
	echo "$pinned pages are still pinned" >&2
	return 1
}

who_holds() {
	grep -E "^(SUnreclaim|Percpu|KernelStack|VmallocUsed):" /proc/meminfo
	grep -h "^TCP" /proc/net/sockstat /proc/net/sockstat6
	awk 'NR > 2 { print $3 * $4 / 1024, "KiB", $1 }' /proc/slabinfo | sort -rn | head -8
}

all_gone() { # held-before module...
	before=$1
	shift
	unload "$@" || return 1
	for try in $(seq 60); do # TCP's memory is freed, too
		after=$(held)
		[ $((after - before)) -gt $LIMIT_KIB ] || break
		sleep 1
	done
	echo "memory: $before KiB before, $after KiB after"
	[ $((after - before)) -gt $LIMIT_KIB ] || return 0
	echo "too much of it is still held" >&2
	who_holds
	return 1
}
