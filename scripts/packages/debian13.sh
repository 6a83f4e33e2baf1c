#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# debian13.sh    makes a system of Debian 13 in a folder, with all that our packages need there and two of its kernels with
# their headers, for scripts/packages.sh. Needs root. What exists is kept: remove build/kernels/debian13* for newer packages.
#
#   build/kernels/debian13          its newest kernel, as scripts/kernels.sh has kernels; `system` is the folder
#   build/kernels/debian13-old      the oldest that is among its packages
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
store=$top/build/kernels
suite=trixie

die() {
	echo "debian13.sh: $*" >&2
	exit 1
}

# shellcheck source=scripts/apt-sources.sh
. "$top/scripts/apt-sources.sh"

# Called by mmdebstrap, where the network and /proc are those of the system.
add_kernels() { # system
	# Of the very old ones there are images alone.
	releases=$(chroot "$1" apt-cache dumpavail |
		sed -nE 's/^Package: linux-headers-(6\.12\.[0-9]+\+deb13(\.[0-9]+)?-amd64)$/\1/p' | sort -uV)
	old=$(echo "$releases" | head -n 1)
	new=$(echo "$releases" | tail -n 1)
	[ "$old" != "$new" ] || die "there is only one kernel, $new: no update of it can be tried"
	for release in "$old" "$new"; do
		# They depend on the kernel. Nothing here boots an initramfs.
		chroot "$1" env INITRD=No apt-get install -qq -y --no-install-recommends "linux-headers-$release"
	done
	echo "$old $new" >"$1/kernels"
}

# The folder of a kernel, as scripts/kernels.sh makes it.
name_kernel() { # folder system release
	mkdir -p "$1"
	ln -s "$2/boot/vmlinuz-$3" "$1/vmlinuz"
	ln -s "$2/usr/lib/modules/$3" "$1/modules"
	ln -s "$2/usr/src/linux-headers-$3" "$1/headers"
	echo "$3" >"$1/release"
}

if [ "${1-}" = add_kernels ]; then
	add_kernels "$2"
	exit
fi
[ ! -e "$store/debian13/release" ] || exit 0
[ "$(id -u)" = 0 ] || die "needs root"
work=$(mktemp -d "$store/.new-debian13.XXXXXX")
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM
echo "debian13.sh: downloading and installing a system, which takes minutes"
mmdebstrap --quiet --mode=root --variant=apt --customize-hook="$0 add_kernels \"\$1\"" \
	--include=dkms,g++,make,man-db,pkgconf,kmod,xz-utils,binutils,lintian,systemd,linux-libc-dev,libc6-dev \
	"$suite" "$work/system" "$(source_line "$suite")" "$(source_line "$suite-security")"
read -r old new <"$work/system/kernels"
rm -rf "$store"/debian13 "$store"/debian13-old
name_kernel "$store/debian13-old" ../debian13/system "$old"
mv "$work" "$store/debian13"
name_kernel "$store/debian13" system "$new"
echo "debian13.sh: the system is in build/kernels/debian13/system, with Linux $old and $new"
