# SPDX-License-Identifier: GPL-2.0
#
# For scenes that unload modules: unload MODULE... tries for up to twenty seconds, because the last reference may be dropped
# shortly after the program's end.

unload() {
	for module; do
		for try in $(seq $((100 * TIME_SCALE))); do
			rmmod "$module" 2>/tmp/why && continue 2
			sleep 0.2
		done
		cat /tmp/why >&2
		return 1
	done
}
