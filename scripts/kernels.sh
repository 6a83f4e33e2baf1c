#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# kernels.sh [--update] VERSION...      fetch stock Debian kernels (6.1, 6.12, 7.2) into build/kernels/VERSION/
#                                       6.1-arm64 and 6.12-arm64 are those of another architecture,
#                                       6.1-rt and 6.12-rt those with PREEMPT_RT
# kernels.sh --source VERSION...        unpack their source into build/kernels/VERSION-source/
#
# Nothing is installed and the host's package lists do not change: apt runs with a configuration of its own,
# whose only sources are the suites below, on the mirror of this host's own sources.
#
# Results, by stable names:
#   build/kernels/VERSION/vmlinuz     the signed kernel
#   build/kernels/VERSION/modules     its modules (a folder with modules.dep)
#   build/kernels/VERSION/headers     make -C build/kernels/VERSION/headers M=...
#   build/kernels/VERSION/release     its `uname -r`
#   build/kernels/VERSION/architecture   Debian's name of it
#   build/kernels/VERSION/system      of one from a newer Debian: a folder with that Debian's compiler and make, which the host
#                                     does not have (scripts/in-system.sh runs programs there)
#   build/kernels/VERSION/guest       of one of another architecture: a folder with that one's programs for the lab's machines
# An existing version is kept; --update looks for a newer one.

set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
store=$top/build/kernels

die() {
	echo "kernels.sh: $*" >&2
	exit 1
}

# shellcheck source=scripts/apt-sources.sh
. "$top/scripts/apt-sources.sh"

# The suites that contain a version, and the pattern of its flavour's package name.
suites_of() {
	case $1 in
	6.1 | 6.1-arm64 | 6.1-rt) echo "bookworm bookworm-security" ;;
	6.12 | 6.12-rt) echo "bookworm-backports" ;;
	6.12-arm64) echo "bookworm bookworm-backports" ;;
	7.2) echo "sid" ;;
	*) die "kernel $1 is not known; there are 6.1, 6.12 and 7.2, 6.1-arm64, 6.12-arm64, 6.1-rt and 6.12-rt" ;;
	esac
}

# Debian's name of the architecture of a version.
architecture_of() {
	case $1 in
	*-arm64) echo arm64 ;;
	*) echo amd64 ;;
	esac
}

pattern_of() {
	case $1 in
	6.1) echo '^linux-image-6\.1\.0-[0-9]+-amd64$' ;;
	6.1-arm64) echo '^linux-image-6\.1\.0-[0-9]+-arm64$' ;;
	6.1-rt) echo '^linux-image-6\.1\.0-[0-9]+-rt-amd64$' ;;
	6.12) echo '^linux-image-6\.12\.[0-9]+\+deb12-amd64$' ;;
	6.12-rt) echo '^linux-image-6\.12\.[0-9]+\+deb12-rt-amd64$' ;;
	6.12-arm64) echo '^linux-image-6\.12\.[0-9]+\+deb12-arm64$' ;;
	7.2) echo '^linux-image-7\.2\.[0-9]+\+deb[0-9.]+-amd64$' ;;
	esac
}

# True of a version that Debian has built with a compiler which Debian 12 does not have.
needs_system() {
	[ "$1" = 7.2 ]
}

# Runs an apt program on the private configuration of $version. The host's proxy and transport settings
# apply.
private() {
	program=$1
	shift
	"$program" -q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::State="$apt/state" -o Dir::State::lists="$apt/state/lists" \
		-o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
		-o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" -o APT::Architectures::=amd64 \
		-o APT::Sandbox::User= \
		-o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# Makes the private configuration of $version and fetches its package lists.
update_lists() {
	apt=$store/.apt/$version
	architecture=$(architecture_of "$version")
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/status"
	for suite in $(suites_of "$version"); do
		source_line "$suite" "amd64,$architecture"
	done >"$apt/sources.list"
	echo "kernels.sh: fetching package lists of $(suites_of "$version")"
	private apt-get update >"$apt/log" 2>&1 || { cat "$apt/log" >&2; die "apt-get update failed"; }
}

# Downloads packages and unpacks them below $work/root.
unpack() {
	echo "kernels.sh: downloading $*"
	mkdir -p "$work/debs" "$work/root"
	(cd "$work/debs" && private apt-get download "$@" >"$apt/log" 2>&1) ||
		{ cat "$apt/log" >&2; die "download failed"; }
	for deb in "$work"/debs/*.deb; do
		dpkg -x "$deb" "$work/root"
	done
	rm -r "$work/debs"
}

# The packages on which the given ones depend directly, of those that the pattern matches.
depends() {
	matching=$1
	shift
	private apt-cache depends --important "$@" | sed -n 's/^ *Depends: //p' | grep -xE "$matching" | sort -u | tr '\n' ' '
}

# Unpacks packages with all that they depend on into a folder of $work. No program of a package is run to set it up.
unpack_system() {
	system=$work/$1
	shift
	echo "kernels.sh: downloading a system with $*"
	private apt-get install -y --no-install-recommends --download-only base-files "$@" >"$apt/log" 2>&1 ||
		{ cat "$apt/log" >&2; die "download failed"; }
	mkdir -p "$system"
	# In sid it has the links from /lib to usr/lib, before others need them.
	dpkg -x "$apt"/cache/archives/base-files_*.deb "$system"
	for deb in "$apt"/cache/archives/*.deb; do
		dpkg -x "$deb" "$system"
	done
	private apt-get clean
}

# Moves the finished folder $work to its place. Another process may be reading the old one, so that is moved
# first.
publish() {
	rm -rf "$1.old"
	[ ! -e "$1" ] || mv "$1" "$1.old"
	mv "$work" "$1"
	rm -rf "$1.old"
}

# The headers refer to each other by the absolute paths of an installed system; make the references relative.
relocate_headers() {
	headers=usr/src/linux-headers-$release
	common=$(sed -n 's|^include /usr/src/\([^/]*\)/Makefile$|\1|p' "$work/root/$headers/Makefile")
	[ -n "$common" ] || die "the headers' Makefile of $release has an unknown form"
	# shellcheck disable=SC2016 # expanded by make
	printf 'here := $(dir $(realpath $(lastword $(MAKEFILE_LIST))))\n%s\ninclude $(here)../%s/Makefile\n' \
		"$(sed -n 's|^KBUILD_OUTPUT=.*|KBUILD_OUTPUT := $(here)|p' "$work/root/$headers/Makefile")" "$common" \
		>"$work/Makefile"
	mv "$work/Makefile" "$work/root/$headers/Makefile"
	ln -sfn "../../../$headers" "$work/root/lib/modules/$release/build"
	ln -sfn "../../../usr/src/$common" "$work/root/lib/modules/$release/source"
}

fetch_kernel() {
	if [ -e "$store/$version/release" ] && [ -z "$renew" ]; then
		return
	fi
	update_lists
	image=$(private apt-cache pkgnames linux-image | grep -E "$(pattern_of "$version")" | sort -V |
		tail -n 1)
	[ -n "$image" ] || die "no kernel $version among the packages of $(suites_of "$version")"
	release=${image#linux-image-}
	packages=$image\ linux-headers-$release
	packages="$packages $(depends 'linux-(headers|kbuild|base|binary|modules)-.*' "$image" "linux-headers-$release")"
	# Kbuild's own programs run on this host.
	[ "$architecture" = amd64 ] || packages=$(echo "$packages" | sed 's/\(linux-kbuild-[^ :]*\)/\1:amd64/')
	# shellcheck disable=SC2086 # a list of names
	wanted=$(private apt-cache policy $packages |
		awk '/^[^ ]/ { name = $1 } /Candidate:/ { print name, $2 }')
	if [ "$wanted" = "$(cat "$store/$version/packages" 2>/dev/null)" ]; then
		echo "kernels.sh: $release is the newest $version"
		return
	fi
	# shellcheck disable=SC2086
	unpack $packages
	[ -e "$work/root/lib" ] || ln -s usr/lib "$work/root/lib"
	relocate_headers
	/sbin/depmod -b "$work/root" "$release"
	kernel=root/lib/modules/$release/vmlinuz
	[ -e "$work/$kernel" ] || kernel=root/boot/vmlinuz-$release
	ln -s "$kernel" "$work/vmlinuz"
	ln -s "root/lib/modules/$release" "$work/modules"
	ln -s "root/usr/src/linux-headers-$release" "$work/headers"
	if needs_system "$version"; then
		compiler=$(depends 'gcc-[0-9]+(-for-host)?' "linux-headers-$release" | sed 's/gcc-\([0-9]*\).*/\1/')
		unpack_system system "gcc-$compiler" "g++-$compiler" make bash dash coreutils sed grep mawk findutils diffutils \
			pahole libelf1t64
		ln -sf mawk "$work/system/usr/bin/awk" # which setting it up would do
	fi
	[ "$architecture" = amd64 ] || unpack_system guest busybox-static dash iproute2 ethtool liburing-dev
	echo "$architecture" >"$work/architecture"
	echo "$wanted" >"$work/packages"
	echo "$release" >"$work/release"
	publish "$store/$version"
	echo "kernels.sh: $release is in build/kernels/$version"
}

fetch_source() {
	if [ -e "$store/$version-source/Makefile" ] && [ -z "$renew" ]; then
		return
	fi
	update_lists
	unpack "linux-source-$version"
	tar -C "$work" --strip-components=1 -xf "$work/root/usr/src/linux-source-$version.tar.xz"
	rm -r "$work/root"
	publish "$store/$version-source"
	echo "kernels.sh: the source of $version is in build/kernels/$version-source"
}

renew=
action=fetch_kernel
while :; do
	case ${1-} in
	--update) renew=yes ;;
	--source) action=fetch_source ;;
	-*) die "unknown option $1" ;;
	*) break ;;
	esac
	shift
done
[ $# -gt 0 ] || die "which kernels? 6.1, 6.12, 7.2"

mkdir -p "$store"
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
for version; do
	suites_of "$version" >/dev/null
	# One at a time for each version: a second caller waits and finds the work done.
	exec 9>"$store/.lock-$version"
	flock 9
	work=$(mktemp -d "$store/.new-$version.XXXXXX")
	chmod 755 "$work"
	$action
	rm -rf "$work"
	exec 9>&-
done
