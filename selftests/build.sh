#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh     checks the build for users and packagers: equal objects in every folder, clear errors about an unusable
# compiler, no more jobs than requested, no change outside of DESTDIR.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
kdir=$top/build/kernels/6.12/headers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# It would depend on the folder.
export CCACHE_DISABLE=1
number=0
failed=0

check() {
	number=$((number + 1))
	if "${@:2}"; then
		echo "ok $number $1"
	else
		echo "not ok $number $1"
		failed=1
	fi
}

# A folder with our sources and one module of one C++ object, which names its own file (HW_ASSERT).
make_folder() {
	mkdir -p "$1/scripts" "$1/debian"
	cp "$top/debian/changelog" "$1/debian/"
	cp -rs "$top/include" "$top/net" "$top/kapi" "$1/"
	cp "$top/scripts/Makefile.cxx" "$1/scripts/"
	# shellcheck disable=SC2016 # for make
	printf '%s\n' 'obj-m := probe.o' 'probe-y := net/rds/message.o' 'include $(src)/scripts/Makefile.cxx' >"$1/Kbuild"
}

# Output of Kbuild in a folder; it ends with an error, because the probe is not a whole module.
kbuild() {
	make -C "$kdir" M="$1" "${@:2}" 2>&1
}

says() {
	grep -q "$1" <<<"$2" || { sed 's/^/# /' <<<"$2"; return 1; }
}

# A compiler of the right version without std::expected.
mkdir "$work/old"
ln -s "$(command -v gcc-12 || command -v gcc)" "$work/old/gcc"
printf '#!/bin/sh\nexec %s "$@" -std=gnu++20\n' "$(command -v g++-12 || command -v g++)" >"$work/old/g++"
chmod +x "$work/old/g++"

for folder in "$work/one" "$work/the/other"; do
	make_folder "$folder"
	check "an object is built in $(basename "$folder")" says "CXX .*/net/rds/message.o" "$(kbuild "$folder")"
done
check "it is the same in both folders" cmp "$work/one/net/rds/message.o" "$work/the/other/net/rds/message.o"
check "a compiler of another family is refused" says 'does not understand' "$(kbuild "$work/one" CC=clang-19)"
check "a compiler without std::expected is refused" says 'has no std::expected' "$(kbuild "$work/one" CC="$work/old/gcc")"
rm "$work/old/g++"
check "a C compiler without its C++ counterpart is refused" says 'the C++ compiler .* is missing' \
	"$(kbuild "$work/one" CC="$work/old/gcc")"

planned() {
	make -n --no-print-directory -C "$top" modules_install KDIR="$kdir" OUT="$work/out" "$@" 2>&1 |
		grep -v '^make\[' | grep -A 9 -E 'DEPMOD=true|INSTALL_MOD_DIR'
}
check "make -j1 is one job" says 'make  -C' "$(planned -j1)"
# KDIR is rarely named as the lab's kernels are.
ln -s "$kdir" "$work/linux-headers"
elsewhere=$(planned KDIR="$work/linux-headers")
check "headers are used with this system's compiler, whatever their folder is called" says "^[^/]*make .*-C $work/linux-headers" \
	"$elsewhere"
check "depmod runs for this system" says '^depmod' "$(planned)"
outside=$(planned DESTDIR="$work/root" INSTALL_MOD_DIR=extra)
check "DESTDIR and INSTALL_MOD_DIR are honoured" says "INSTALL_MOD_DIR=extra INSTALL_MOD_PATH=$work/root" "$outside"
check "no depmod below DESTDIR" test -z "$(grep '^depmod' <<<"$outside")"

# Files of ours, and one of others; what `make uninstall` leaves.
release=$(sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' "$kdir/include/generated/utsrelease.h")
updates=$work/root/lib/modules/$release/updates
mkdir -p "$updates" "$work/root/usr/local/bin"
touch "$updates"/{hawser,hawser_verbs,rds,rds_tcp,rds_rdma,kcm,rtrs-core,rtrs-client,rtrs-server}.ko "$updates/rds.ko.xz" \
	"$updates/rdsx.ko" "$work/root/usr/local/bin/"{rds-ping,rds-info,rds-stress,kcm-server,kcm-client,other}
uninstalled=$(make --no-print-directory -C "$top" uninstall KDIR="$kdir" DESTDIR="$work/root" 2>&1)
check "uninstall removes what was installed" test "$(cd "$work/root" && find . -type f | sort | xargs)" = \
	"./lib/modules/$release/updates/rdsx.ko ./usr/local/bin/other"
check "... and runs no depmod below DESTDIR" test -z "$(grep '^depmod' <<<"$uninstalled")"
mv "$updates/rdsx.ko" "$updates/rds.ko"
make --no-print-directory -C "$top" uninstall KDIR="$kdir" DESTDIR="$work/root" >"$work/log" 2>&1
check "... and their folder, when nothing else is in it" test ! -e "$updates"
uninstalled=$(make -n --no-print-directory -C "$top" uninstall KDIR="$kdir")
check "... but for this system" says "^depmod $release" "$uninstalled"
echo "1..$number"
exit $failed
