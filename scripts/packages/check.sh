# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# . check.sh    what the scripts of packages.sh share: how a check is reported, and where what is checked stands.
# shellcheck disable=SC2034 # used there

export LC_ALL=C
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$top/build/packages
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$top/debian/changelog")

# The version from which hosts are upgraded: a commit of long before, under a version of its own until there are releases.
before_commit=705ecda4876e1fa7dc762e243ae4fa30a0eb36a1
before=$version~before

# The kernels of the systems in which the packages are installed: names of folders in build/kernels.
declare -A kernels_of=([12]="6.1 6.12" [13]="debian13-old debian13")

release_of() { # kernel
	cat "$top/build/kernels/$1/release"
}

# A check of a system has its name in front.
label=

check() { # name command...
	local name=$label$1 number verdict=ok

	shift
	echo "# $name: $*" >>"$out/log"
	"$@" >"$out/last" 2>&1 </dev/null || verdict="not ok"
	echo "$verdict" >>"$out/verdicts"
	number=$(wc -l <"$out/verdicts")
	echo "$verdict $number $name"
	[ "$verdict" = ok ] || tail -n 40 "$out/last" | sed 's/^/# /'
	cat "$out/last" >>"$out/log"
}
