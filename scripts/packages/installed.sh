#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# installed.sh SYSTEM    installs, upgrades and removes the packages in this system, Debian 12 or 13, which must be a copy that
# copy.sh has made: nothing of it is kept but the modules that DKMS has built, and the programs, for the lab.
set -u

# shellcheck source=scripts/packages/check.sh
. "$(dirname "$0")/check.sh"
system=$1
label="Debian $system: "
read -r old_kernel new_kernel <<<"${kernels_of[$system]}"
old=$(release_of "$old_kernel")
new=$(release_of "$new_kernel")
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

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
	local modules

	modules=$(modprobe -S "$1" --show-depends rds_rdma) && ! grep -E '/kernel/.*/(rds|rds_tcp|rds_rdma)\.ko' <<<"$modules"
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

# By apt, whose own path is not that of the user, and has no fake uname.
install() { # folder
	apt-get install -y --no-install-recommends -o "DPkg::Path=$PATH" "$1"/hawser-{dkms,tools,dev}_*.deb
}

# What modules export, as Kbuild has it in Module.symvers. modprobe fails for those that export nothing.
exports_of() { # module.ko...
	local file

	for file; do
		! nm "$file" | grep -q ' __ksymtab_' ||
			modprobe --show-exports "$file" | sed "s|\$|\t${file%.ko}\tEXPORT_SYMBOL\t|" || return
	done
}

# What modprobe has found, as plain files for the lab, and what its modules need.
keep_modules() { # kernel folder
	local folder=$2/$1-packages file

	rm -rf "$folder"
	mkdir -p "$folder"
	cp "/lib/modules/$(release_of "$1")/updates/dkms/"* "$folder/" || return
	for file in "$folder"/*.xz; do
		[ ! -e "$file" ] || xz -d "$file" || return
	done
	exports_of "$folder"/*.ko >"$folder/Module.symvers" || return
	! grep -l /var/lib/dkms "$folder"/*.ko || return
	"$top/scripts/check-module.sh" "/lib/modules/$(release_of "$1")/build" "$folder/Module.symvers" "$folder"/*.ko
}

keep_programs() {
	mkdir -p "$out/result/usr/bin" "$out/result/usr/lib/hawser"
	dpkg -L hawser-tools | grep ^/usr/bin/ | xargs -I{} cp {} "$out/result/usr/bin/"
	cp /usr/lib/hawser/check-modules "$out/result/usr/lib/hawser/"
}

programs_run() {
	[ "$(rds-info --version | head -n 1)" = "rds-info (hawser) $version" ] && rds-ping --help && kcm-client --help
}

has_help() {
	local program

	for program in $(dpkg -L hawser-tools | sed -n 's|^/usr/bin/||p'); do
		man -w "$program" || return
		bash -c ". /usr/share/bash-completion/completions/$program && complete -p $program" || return
	done
	man -w rds rds-rdma kcm rtrs
}

# The unit that warns of the kernel's own modules.
enabled_at_boot() {
	systemd-analyze verify hawser-dkms.service && [ "$(systemctl is-enabled hawser-dkms.service)" = enabled ]
}

# The example loads rds and kcm by commands that begin with hawser, which is only there beside ours.
refuses_stock() {
	local example=/usr/share/doc/hawser-dkms/examples/modprobe.d/hawser.conf
	local name commands

	for name in rds kcm; do
		commands=$(modprobe -S "$1" -C "$example" --show-depends "$name") || return
		[[ $commands == "install /sbin/modprobe hawser && /sbin/modprobe --ignore-install $name"* ]] || return
	done
}

has_no_hawser() {
	! modprobe -S "$1" --show-depends hawser && modprobe -S "$1" --show-depends rds
}

compile_examples() {
	local source options

	pkg-config --modversion hawser | grep -Fx "$version" || return
	read -ra options < <(pkg-config --cflags hawser)
	printf '#include <%s>\n' hawser_kcm.h hawser_rds.h hawser_netlink.h |
		gcc -Wall -Werror "${options[@]}" -x c -fsyntax-only - || return
	for source in /usr/share/doc/hawser-dev/examples/*.c; do
		gcc -Wall -Werror -D_GNU_SOURCE "${options[@]}" -o /tmp/example "$source" || return
	done
}

purge() {
	dpkg --purge hawser-dkms hawser-tools hawser-dev || return
	[ -z "$(ls -d /usr/src/hawser-* /usr/lib/hawser /etc/systemd/system/*/hawser* /var/lib/dkms/hawser \
		/lib/modules/*/updates 2>/dev/null)" ]
}

install_before() {
	boot "$old"
	check "at first there are the kernel's own modules" stock_in "$old"
	# Without headers DKMS leaves the kernel alone.
	mv "/lib/modules/$new/build" /tmp/build
	check "the version before is installed, and builds for the kernel with headers" install "$out/before"
	check "dkms status reports it" status_is "$before" "$old"
	check "the modules have its version" has_version "$old" "$before"
	check "they are taken along for the lab" keep_modules "$old_kernel" "$out/modules-before"
	mv /tmp/build "/lib/modules/$new/build"
}

upgrade() {
	boot "$new"
	check "the packages are upgraded" install "$out/one"
	check "... with the new version" has_version "$new" "$version"
	if [ "$system" = 12 ]; then
		check "... for the running kernel alone" status_is "$version" "$new"
	else
		check "... for all kernels" status_is "$version" "$new" "$old"
		check "one kernel's modules are removed" dkms remove "hawser/$version" -k "$old"
	fi
	check "... and another kernel has its own modules" stock_in "$old"
	check "... until it is installed anew, which builds for it" /etc/kernel/postinst.d/dkms "$old"
	check "... and only adds to what there was" status_is "$version" "$new" "$old"
}

# Debian 12's debhelper puts units below /lib, which lintian complains of since Debian 13. Earlier ones do not know that tag.
accepted_by_lintian() {
	local options=()

	! lintian-explain-tags aliased-location >/dev/null 2>&1 || options=(--suppress-tags aliased-location)
	lintian --allow-root "${options[@]}" --fail-on error,warning "$out"/one/*.changes
}

use() {
	local release

	for release in "$old" "$new"; do
		check "modprobe finds our modules in $release" found_in "$release" updates/dkms
		check "... and none of the kernel's own with them" no_mixture "$release"
		check "... they have the package's version" has_version "$release" "$version"
		check "... and are signed with DKMS's key" signed "$release"
	done
	for kernel in "$old_kernel" "$new_kernel"; do
		check "check-module.sh accepts the modules for $kernel" keep_modules "$kernel" "$top/build/modules"
	done
	check "the programs run" programs_run
	check "each program has a manual page and completion, each protocol a page" has_help
	check "a program for KCM and the examples are compiled" compile_examples
	check "the example for modprobe refuses the kernel's own modules where ours are missing" refuses_stock "$old"
	check "the unit that warns of them is enabled" enabled_at_boot
	check "dkms skips a kernel that is not supported" not_for_other_kernels
	check "lintian has no errors or warnings" accepted_by_lintian
}

remove() {
	check "the packages are removed, and leave nothing" purge
	check "no kernel has a module hawser, with which the example for modprobe begins" has_no_hawser "$old"
	check "the kernel's own modules are back in $old" stock_in "$old"
	check "the kernel's own modules are back in $new" stock_in "$new"
}

install_before
upgrade
use
# The programs of either system are the same.
[ "$system" != 12 ] || check "the programs are taken along for the lab" keep_programs
remove
touch "$out/ended-$system"
