#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packages.sh    checks the Debian packages of the tarball that `make dist` has made (make check-packages does both): builds
# them in two folders, and in a system that has nothing else; installs, upgrades and removes them in copies of this system and of
# one of Debian 13; boots the modules that DKMS has built there, and upgrades them under traffic. It needs root.
#
# Every line of build/packages/log belongs to the check that follows it on stdout.
set -u

# shellcheck source=scripts/packages/check.sh
. "$(dirname "$0")/packages/check.sh"

build() { # folder tarball version
	local source=$1/hawser-$version

	rm -rf "$1"
	mkdir -p "$1"
	tar -C "$1" -xf "$2" || return
	sed -i "1s/([^)]*)/($3)/" "$source/debian/changelog"
	(cd "$source" && dpkg-buildpackage -us -uc -b)
}

# Where there is no history, there is nothing to upgrade from.
build_before() {
	git -C "$top" -c safe.directory='*' archive --prefix="hawser-$version/" -o "$out/before.tar" "$before_commit" || return
	build "$out/before" "$out/before.tar" "$before"
}

# Where nothing is installed that they do not ask for.
build_clean() {
	rm -rf "$out/clean"
	mkdir -p "$out/clean"
	tar -C "$out/clean" -xf "$tarball" || return
	"$top/scripts/packages/clean.sh" "$out/clean/hawser-$version"
}

same() { # folder
	local deb

	for deb in "$out"/one/*.deb; do
		cmp "$deb" "$out/$1/$(basename "$deb")" || return
	done
}

# Of a kernel with the given headers.
dkms_modules() {
	dpkg-deb --fsys-tarfile "$out/one/hawser-dkms_${version}_all.deb" |
		tar -xO "./usr/src/hawser-$version/dkms.conf" >"$out/dkms.conf"
	bash -c 'kernel_source_dir=$1; . "$2"; printf "%s\n" "${BUILT_MODULE_NAME[@]}"' - "$1" "$out/dkms.conf" | sort
}

all_modules() {
	# shellcheck disable=SC2016 # as Kbuild has it
	local condition='m\|$(if $(CONFIG_INFINIBAND_ADDR_TRANS),m)'

	diff <(sed -n "s/^obj-\($condition\) += \(.*\)\.o\$/\2/p" "$top/Kbuild" | sort) \
		<(dkms_modules "$top/build/kernels/6.1/headers")
}

without_infiniband() {
	mkdir -p "$out/headers/include/config"
	echo CONFIG_INFINIBAND=m >"$out/headers/include/config/auto.conf"
	diff <(sed -n "s/^obj-m += \(.*\)\.o\$/\1/p" "$top/Kbuild" | sort) <(dkms_modules "$out/headers")
}

install_and_uninstall() {
	local tools=(make -f "$top/tools/Makefile" "O=$out/tools" "DESTDIR=$out/staged")

	rm -rf "$out/staged"
	"${tools[@]}" install install-dev || return
	[ -x "$out/staged/usr/local/bin/rds-ping" ] && [ -e "$out/staged/usr/local/include/hawser/hawser_kcm.h" ] || return
	"${tools[@]}" uninstall || return
	[ -z "$(find "$out/staged" -type f)" ]
}

# Each machine: NAME=KERNEL:SUITE, with the modules of the packages where KERNEL ends in -packages.
scene() { # file machine...
	local file=$1 kernel options=()

	shift
	# shellcheck disable=SC2048 # names of one word
	for kernel in ${kernels_of[*]}; do
		options+=(--kernel-dir "$kernel-packages=$top/build/kernels/$kernel")
	done
	"$top/scripts/lab/lab" run "${options[@]}" "${@/#/--host=}" "selftests/packages/$file"
}

# A module needs symbols of the one below it, with names that change with the interface.
do_not_mix() { # kernel
	local -A folder=([before]="$out/modules-before/$1-packages" [now]="$top/build/modules/$1-packages")
	local pair module symbols symbol upper lower

	for pair in "rds now before" "rds_tcp now before" "kcm now before" "rds_tcp before now"; do
		read -r module upper lower <<<"$pair"
		symbols=$(nm -u "${folder[$upper]}/$module.ko" | grep -oE '(kapi|rds_transport)_abi_[0-9a-f]+$') || return
		for symbol in $symbols; do
			grep -w "$symbol" "${folder[$upper]}/Module.symvers" || return
			! grep -w "$symbol" "${folder[$lower]}/Module.symvers" || return
		done
	done
}

[ "$(id -u)" = 0 ] || { echo "packages.sh: needs root, to install packages in copies of systems" >&2; exit 2; }
# Options of make check-packages are not for the packages' make.
unset MAKEFLAGS MAKELEVEL MFLAGS
rm -rf "$out"
mkdir -p "$out"
tarball=$top/build/hawser-$version.tar.gz
check "the packages are built" build "$out/one" "$tarball" "$version"
check "the packages are built in another folder" build "$out/the/other" "$tarball" "$version"
check "both builds are the same, byte for byte" same the/other
check "the packages are built in a system with what they ask for alone" build_clean
check "... and are the same, byte for byte" same clean
check "DKMS installs all modules of Kbuild" all_modules
check "... and where there is no InfiniBand, those that need none" without_infiniband
check "make uninstall removes all that install has installed" install_and_uninstall
check "the version before is built, for the upgrade" build_before

for system in 12 13; do
	"$top/scripts/packages/copy.sh" "$system" "$top/scripts/packages/installed.sh" "$system"
	check "all checks in the copy of Debian $system have run" test -e "$out/ended-$system"
done

cd "$top" || exit
check "modules of the packages for two kernels pass traffic" scene installed.sh a=6.1-packages:ours b=6.12-packages:ours
check "... and those of Debian 13" scene installed.sh a=debian13-packages:ours b=debian13-old-packages:ours
check "... and with the kernel's own modules" scene installed.sh a=6.12-packages:ours b=6.1:kernel
check "... and with those of Debian 13" scene installed.sh a=debian13-packages:kernel b=debian13-old-packages:ours
check "bpftrace reads the tracepoints of those of Debian 12" scene bpftrace.sh a=6.1-packages:ours
check "... and of those of its backports" scene bpftrace.sh a=6.12-packages:ours
check "modules of different versions do not load together" do_not_mix 6.1
check "modules are upgraded under traffic" scene upgrade.sh a=6.1-packages:ours b=debian13-old-packages:ours

passed=$(grep -c '^ok' "$out/verdicts")
failed=$(grep -c '^not' "$out/verdicts")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
