#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# in-system.sh SYSTEM COMMAND...    runs a command with the programs and libraries of the system in the folder SYSTEM (of another
# Debian, see kernels.sh), and with the folders of this project and the working directory where they are. Any user may, where
# users may make namespaces.
set -eu

system=$(realpath "$1")
shift
top=$(cd "$(dirname "$0")/.." && pwd)

# Inside of a namespace of mounts of its own, which ends with the command.
# shellcheck disable=SC2016 # expanded there
in_namespace='
	system=$1 top=$2 directory=$3
	shift 3
	mkdir -p "$system/$top"
	mount --bind "$top" "$system/$top"
	mount --rbind /dev "$system/dev"
	mount --rbind /proc "$system/proc"
	exec chroot "$system" /usr/bin/env -C "$directory" "$@"'

user=
[ "$(id -u)" = 0 ] || user=--map-root-user
# shellcheck disable=SC2086 # one option or none
exec unshare --mount $user sh -euc "$in_namespace" in-system "$system" "$top" "$PWD" "$@"
