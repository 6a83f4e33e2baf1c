#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# copy.sh SYSTEM COMMAND...    runs a command in a copy of a system: 12 is this one, with the kernels of build/kernels and none
# else; 13 is that of debian13.sh. The copy is an overlay in a mount namespace of its own, of which nothing is kept.
set -eu

# shellcheck source=scripts/packages/check.sh
. "$(dirname "$0")/check.sh"

# This system's kernels are in folders of their own.
add_kernel() { # kernel
	local release tree folder

	release=$(release_of "$1")
	tree=$all/usr/lib/modules/$release
	mkdir -p "$tree" "$root/$1/upper" "$root/$1/work"
	folder=$(realpath "$top/build/kernels/$1/modules")
	mount -t overlay none -o "lowerdir=$folder,upperdir=$root/$1/upper,workdir=$root/$1/work" "$tree"
	rm -f "$tree/source"
	ln -sfn "/usr/src/linux-headers-$release" "$tree/build"
	for folder in "$(realpath "$top/build/kernels/$1/root")"/usr/{src/linux-headers-*,lib/linux-kbuild-*}; do
		mkdir -p "$all/usr/${folder##*/usr/}"
		mount --bind "$folder" "$all/usr/${folder##*/usr/}"
	done
}

if [ "$1" != in_namespace ]; then
	exec unshare --mount --fork "$0" in_namespace "$@"
fi
system=$2
shift 2
root=$out/copy
all=$root/all
lower=/
[ "$system" = 12 ] || lower=$(realpath "$top/build/kernels/debian$system/system")
mkdir -p "$root"
mount -t tmpfs none "$root"
mkdir "$root/upper" "$root/work" "$all"
mount -t overlay none -o "lowerdir=$lower,upperdir=$root/upper,workdir=$root/work" "$all"
mount -t proc none "$all/proc"
mount --rbind /dev "$all/dev"
mkdir -p "$all$top"
mount --bind "$top" "$all$top"
if [ "$system" = 12 ]; then
	rm -rf "$all"/usr/lib/modules
	for kernel in ${kernels_of[12]}; do
		add_kernel "$kernel"
	done
fi
exec chroot "$all" "$@"
