#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# clean.sh SOURCES    builds the packages in a system of Debian 12 that has what their debian/control names and nothing else, and
# puts them beside the folder SOURCES. Needs root. Nothing is kept of the system.
set -eu

die() {
	echo "clean.sh: $*" >&2
	exit 1
}

# Called by mmdebstrap, where the network and /proc are those of the system.
build_in() { # sources system
	mkdir "$2/build"
	cp -r "$1" "$2/build/sources"
	chroot "$2" sh -euc 'cd /build/sources
		apt-get build-dep -qq -y --no-install-recommends ./
		dpkg-buildpackage -us -uc -b'
	cp "$2"/build/*.deb "$(dirname "$1")/"
}

if [ "${1-}" = build_in ]; then
	build_in "$2" "$3"
	exit
fi
# shellcheck source=scripts/apt-sources.sh
. "$(dirname "$0")/../apt-sources.sh"
mmdebstrap --quiet --mode=root --variant=buildd --customize-hook="$0 build_in $(realpath "$1") \"\$1\"" \
	bookworm /dev/null "$(source_line bookworm)" "$(source_line bookworm-security)"
