# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh

soon() { # test, which must hold within a while
	for _ in $(seq $((300 * TIME_SCALE))); do
		"$@" && return
		sleep 0.1
	done
	return 1
}
