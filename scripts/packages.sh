#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packages.sh    checks the Debian packages of the tarball that `make dist` has made (make check-packages does both): builds
# them in two folders, installs, upgrades and removes them, and boots the modules that DKMS has built.
#
# They are installed in a copy of this system, an overlay of which nothing is kept; so it needs root. The copy has the kernels
# of build/kernels and none else. Every line of build/packages/log belongs to the check that follows it on stdout.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
out=$top/build/packages
kernels=(6.1 6.12)
version=$(dpkg-parsechangelog -l "$top/debian/changelog" -S Version)
# For the upgrade.
next=$version+next
export LC_ALL=C

passed=0
failed=0

check() { # name command...
	local name=$1
	shift
	echo "# $name: $*" >>"$out/log"
	: >"$out/last"
	if "$@" >"$out/last" 2>&1 </dev/null; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) $name"
	else
		failed=$((failed + 1))
		echo "not ok $((passed + failed)) $name"
		tail -n 40 "$out/last" | sed 's/^/# /'
	fi
	cat "$out/last" >>"$out/log"
}

release_of() {
	cat "$top/build/kernels/$1/release"
}

# ---- the packages

build() { # folder version
	rm -rf "$1"
	mkdir -p "$1"
	tar -C "$1" -xf "$top/build/hawser-$version.tar.gz" || return
	sed -i "1s/($version)/($2)/" "$1/hawser-$version/debian/changelog"
	(cd "$1/hawser-$version" && dpkg-buildpackage -us -uc -b)
}

same() {
	local deb

	for deb in "$out"/one/*.deb; do
		cmp "$deb" "$out/the/other/$(basename "$deb")" || return
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

# ---- in the copy of this system

# Each of our modules is found where it should be, and all that it needs, too.
found_in() { # release pattern-of-folder
	local module

	for module in hawser hawser_verbs rds rds_tcp rds_rdma kcm rtrs-core rtrs-client rtrs-server; do
		modinfo -k "$1" -n "$module" | tee -a /dev/stderr | grep -q "^/lib/modules/$1/$2/$module\.ko" || return
		modprobe -S "$1" --show-depends "$module" >/dev/null || return
	done
}

# Those that the kernel has.
stock_in() {
	local module

	for module in rds rds_tcp rds_rdma kcm; do
		modinfo -k "$1" -n "$module" | tee -a /dev/stderr | grep -q "^/lib/modules/$1/kernel/net/" || return
	done
	! modinfo -k "$1" -n hawser
}

# The stock modules of our names are not loaded with ours.
no_mixture() {
	! modprobe -S "$1" --show-depends rds_rdma | grep -E '/kernel/.*/(rds|rds_tcp|rds_rdma)\.ko'
}

signed() {
	[ "$(modinfo -k "$1" -F signer rds)" = "DKMS module signing key" ]
}

has_version() { # release version
	[ "$(modinfo -k "$1" -F version rds)" = "hawser-$2" ]
}

status_is() { # version release...
	local wanted=$1 release

	shift
	diff <(for release; do echo "hawser/$wanted, $release, x86_64: installed"; done | sort) \
		<(dkms status | sed 's/ (.*//' | sort)
}

not_for_other_kernels() {
	dkms build "hawser/$version" -k 5.10.0-1-amd64
	[ $? = 77 ]
}

# From now on it is the running kernel, as far as DKMS knows.
boot() {
	printf '#!/bin/sh\n[ "$*" != -r ] || exec echo "%s"\nexec /bin/uname "$@"\n' "$1" >/usr/local/bin/uname
	chmod +x /usr/local/bin/uname
}

# What modprobe has found, as plain files for the lab, and what its modules need.
keep_modules() { # kernel
	local folder=$top/build/modules/$1-packages file

	rm -rf "$folder"
	mkdir -p "$folder"
	cp "/lib/modules/$(release_of "$1")/updates/dkms/"* "$folder/" || return
	for file in "$folder"/*.xz; do
		[ ! -e "$file" ] || xz -d "$file" || return
	done
	nm "$folder"/*.ko | sed -n 's/.* __ksymtab_/0 /p' >"$folder/Module.symvers"
	! grep -l /var/lib/dkms "$folder"/*.ko || return
	"$top/scripts/check-module.sh" "$top/build/kernels/$1/headers" "$folder/Module.symvers" "$folder"/*.ko
}

keep_programs() {
	mkdir -p "$out/result/usr/bin"
	dpkg -L hawser-tools | grep ^/usr/bin/ | xargs -I{} cp {} "$out/result/usr/bin/"
}

refuses_stock() {
	local example=/usr/share/doc/hawser-dkms/examples/modprobe.d/hawser.conf

	modprobe -S "$1" -C "$example" --show-depends rds_tcp | tee -a /dev/stderr | grep -q '^install /sbin/modprobe hawser &&'
}

compile_examples() {
	local source options

	pkg-config --modversion hawser | grep -Fx "$version" || return
	read -ra options < <(pkg-config --cflags hawser)
	printf '#include <%s>\n' hawser_kcm.h hawser_rds.h | gcc -Wall -Werror "${options[@]}" -x c -fsyntax-only - || return
	for source in /usr/share/doc/hawser-dev/examples/*.c; do
		gcc -Wall -Werror -D_GNU_SOURCE "${options[@]}" -o /tmp/example "$source" || return
	done
}

purge() {
	dpkg --purge hawser-dkms hawser-tools hawser-dev || return
	[ -z "$(ls -d /usr/src/hawser-* /var/lib/dkms/hawser /lib/modules/*/updates 2>/dev/null)" ]
}

in_the_copy() {
	local old new

	old=$(release_of 6.1)
	new=$(release_of 6.12)
	export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	boot "$old"
	check "at first there are the kernel's own modules" stock_in "$old"
	# Without headers DKMS leaves the kernel alone.
	rm "/lib/modules/$new/build"
	check "the packages are installed, and build for the kernel with headers" dpkg -i "$out"/one/hawser-{dkms,tools,dev}_*.deb
	check "dkms status reports it" status_is "$version" "$old"
	check "modprobe finds our modules" found_in "$old" updates/dkms
	check "... and none of the kernel's own with them" no_mixture "$old"
	check "they have the package's version" has_version "$old" "$version"
	check "they are signed with DKMS's key" signed "$old"
	check "the manual pages are found" man -w rds-ping rds-rdma
	check "a program for KCM and the examples are compiled" compile_examples
	check "the example for modprobe refuses the kernel's own modules where ours are missing" refuses_stock "$old"
	check "dkms skips a kernel that is not supported" not_for_other_kernels
	ln -s "/usr/src/linux-headers-$new" "/lib/modules/$new/build"
	check "a kernel update builds the modules for the new kernel" /etc/kernel/postinst.d/dkms "$new"
	check "... and only adds to what there was" status_is "$version" "$new" "$old"
	check "modprobe finds our modules there, too" found_in "$new" updates/dkms
	check "... signed" signed "$new"
	for kernel in "${kernels[@]}"; do
		check "check-module.sh accepts the modules for $kernel" keep_modules "$kernel"
	done
	check "the programs are taken along for the lab" keep_programs
	boot "$new"
	check "the packages are upgraded" dpkg -i "$out/next/"hawser-{dkms,tools,dev}_*.deb
	check "... for the running kernel" status_is "$next" "$new"
	check "... with the new version" has_version "$new" "$next"
	check "... and the old kernel has its own modules until dkms autoinstall" stock_in "$old"
	check "the packages are removed, and leave nothing" purge
	check "the kernel's own modules are back in $old" stock_in "$old"
	check "the kernel's own modules are back in $new" stock_in "$new"
	echo "$passed $failed" >"$out/counts"
}

# Makes the copy, in a mount namespace of its own, and goes on in it.
make_copy() {
	local root=$out/copy all=$out/copy/all kernel release tree folder

	set -e
	mkdir -p "$root"
	mount -t tmpfs none "$root"
	mkdir "$root/upper" "$root/work" "$all"
	mount -t overlay none -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$all"
	mount -t proc none "$all/proc"
	mount --rbind /dev "$all/dev"
	mount --bind "$top" "$all$top"
	rm -rf "$all"/usr/lib/modules
	for kernel in "${kernels[@]}"; do
		release=$(release_of "$kernel")
		tree=$all/usr/lib/modules/$release
		mkdir -p "$tree" "$root/$kernel/upper" "$root/$kernel/work"
		folder=$(realpath "$top/build/kernels/$kernel/modules")
		mount -t overlay none -o "lowerdir=$folder,upperdir=$root/$kernel/upper,workdir=$root/$kernel/work" "$tree"
		rm -f "$tree/source"
		ln -sfn "/usr/src/linux-headers-$release" "$tree/build"
		for folder in "$(realpath "$top/build/kernels/$kernel/root")"/usr/{src/linux-headers-*,lib/linux-kbuild-*}; do
			mkdir -p "$all/usr/${folder##*/usr/}"
			mount --bind "$folder" "$all/usr/${folder##*/usr/}"
		done
	done
	exec chroot "$all" "$top/scripts/packages.sh" in_the_copy "$passed" "$failed"
}

case ${1-} in
in_the_copy | make_copy)
	passed=$2
	failed=$3
	$1
	exit
	;;
esac

[ "$(id -u)" = 0 ] || { echo "packages.sh: needs root, to install packages in a copy of this system" >&2; exit 2; }
# Options of make check-packages are not for the packages' make.
unset MAKEFLAGS MAKELEVEL MFLAGS
rm -rf "$out"
mkdir -p "$out"
check "the packages are built" build "$out/one" "$version"
check "the packages are built in another folder" build "$out/the/other" "$version"
check "both builds are the same, byte for byte" same
check "lintian has no errors or warnings" lintian --fail-on error,warning "$out"/one/*.changes
check "DKMS installs all modules of Kbuild" all_modules
check "... and where there is no InfiniBand, those that need none" without_infiniband
check "make uninstall removes all that install has installed" install_and_uninstall
check "a later version is built, for the upgrade" build "$out/next" "$next"

unshare --mount --fork "$top/scripts/packages.sh" make_copy "$passed" "$failed"
if [ -e "$out/counts" ]; then
	read -r passed failed <"$out/counts"
else
	check "the packages are installed in a copy of this system" false
fi

scene() { # option...
	"$top/scripts/lab/lab" run --kernel-dir "6.1-packages=$top/build/kernels/6.1" \
		--kernel-dir "6.12-packages=$top/build/kernels/6.12" "$@" selftests/packages/installed.sh
}
cd "$top" || exit
check "modules of the packages for two kernels pass traffic" scene --host a=6.1-packages:ours --host b=6.12-packages:ours
check "... and with the kernel's own modules" scene --host a=6.12-packages:ours --host b=6.1:kernel

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
