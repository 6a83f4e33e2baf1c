# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# For scenes that replace modules by those of another version: `before`, which are in /lab/files, or `next`, which are of the
# suite. Output is left in the files out and err, which `verdict` prints.

load_version() { # version module... in the order of their dependencies
	version=$1
	shift
	if [ "$version" = next ]; then
		load_suite "$@"
		return
	fi >out 2>err
	for module; do
		insmod "/lab/files/$module.ko" || return
	done >out 2>err
}

# Whether rds-info, which has the next one's version, reports that one for each.
is_version() { # version module...
	rds-info --version >out 2>err
	case $1 in
	before) text="[0-9.]+~before, another version than this program" ;;
	next) text="[0-9.]+" ;;
	esac
	shift
	for module; do
		grep -qE "^$module: hawser's module $text\$" out || return
	done
}
