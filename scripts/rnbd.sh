#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rnbd.sh VERSION [kernel|ours]    builds RNBD, unmodified, from the source of a Debian kernel (6.1, 6.12, 7.2), which has
#                                  neither RNBD nor RTRS: with the RTRS of the same source, with ours (make modules-VERSION
#                                  has built it), or, without the last argument, once with each.
#
# The modules are put into build/rnbd/VERSION/kernel and .../ours. What is newer than the sources is not built again.
# A debug kernel (VERSION 6.12-debug) has its own RTRS with RNBD; for it only `ours` is built. 6.1-packages is for the modules of
# the packages, as scripts/packages.sh keeps them.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
version=${1-}
suite=${2-}
case $version-$suite in
[0-9]*-kernel | [0-9]*-ours) ;;
[0-9]*-)
	"$0" "$version" kernel
	exec "$0" "$version" ours
	;;
*)
	echo "usage: rnbd.sh VERSION [kernel|ours]" >&2
	exit 1
	;;
esac
case $version in
*-packages) "$top/scripts/kernels.sh" "${version%-*}" ;;
*-*)
	[ "$suite" = ours ] || exit 0
	"$top/scripts/debug-kernel.sh" "$version"
	;;
*) "$top/scripts/kernels.sh" "$version" ;;
esac
"$top/scripts/kernels.sh" --source "${version%-*}"
kernel=$top/build/kernels/${version%-packages}
kdir=$kernel/headers
source=$top/build/kernels/${version%-*}-source
ours=$top/build/modules/$version
# Only clang builds for a kernel that clang has built.
compiler=$(sed -n 's/^CONFIG_CLANG_VERSION=\(.*\)[0-9]\{4\}$/CC=clang-\1/p' "$kdir/include/config/auto.conf")
# A kernel of a newer Debian comes with the system whose compiler has built it.
run=()
[ ! -d "$kernel/system" ] || run=("$top/scripts/in-system.sh" "$kernel/system")
out=$top/build/rnbd/$version/$suite
work=$out/build
mkdir -p "$work"

# One at a time.
exec 9>"$out/.lock"
flock 9

# build FOLDER CONFIG... [-- MAKE-ARGUMENT...]: Kbuild in a copy of a folder of the kernel's source, which Kbuild writes into.
build() {
	local folder=$1 configs=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		configs+=("CONFIG_$1=m")
		shift
	done
	[ $# = 0 ] || shift
	mkdir -p "$work/$folder"
	cp -ru "$source/$folder/." "$work/$folder/"
	"${run[@]}" make -s -j"${JOBS:-$(nproc)}" -C "$kdir" "M=$work/$folder" ${compiler:+"$compiler"} "${configs[@]}" "$@" \
		modules >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; exit 1; }
}

rtrs=drivers/infiniband/ulp/rtrs
if [ "$suite" = kernel ]; then
	build $rtrs INFINIBAND_RTRS INFINIBAND_RTRS_CLIENT INFINIBAND_RTRS_SERVER
	header=$work/$rtrs
	symbols=$work/$rtrs/Module.symvers
else
	header=$work/include
	symbols=$ours/Module.symvers
	[ -e "$symbols" ] || { echo "rnbd.sh: no modules for $version: make modules-$version first" >&2; exit 1; }
	# A folder of these headers only: RNBD is to find nothing else of ours.
	mkdir -p "$header"
	cp -u "$top"/include/rtrs*.h "$header/"
fi
build drivers/block/rnbd BLK_DEV_RNBD BLK_DEV_RNBD_CLIENT BLK_DEV_RNBD_SERVER -- \
	"KCFLAGS=-I$header" "KBUILD_EXTRA_SYMBOLS=$symbols"
# The headers of a debug kernel hold another rtrs.h.
for user in rnbd-clt rnbd-srv; do
	grep -qE "[ :]$header/rtrs\.h" "$work/drivers/block/rnbd/.$user.o.cmd" ||
		{ echo "rnbd.sh: $user was built with another rtrs.h" >&2; exit 1; }
done
find "$work" -name '*.ko' -exec cp {} "$out/" \;
echo "rnbd.sh: $(cd "$out" && echo *.ko | tr '\n' ' ')for $version are in ${out#"$top"/}"
