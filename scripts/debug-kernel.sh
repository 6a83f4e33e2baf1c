#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# debug-kernel.sh VERSION-FLAVOUR     builds a debug kernel (6.1-debug, 6.1-kcsan) into build/kernels/VERSION-FLAVOUR/
#
# Debian's source (scripts/kernels.sh --source), configured by machine.config, FLAVOUR.config and, where there is one,
# FLAVOUR-VERSION.config of scripts/debug-kernel/, built outside of the source, so that one source serves all flavours.
# The result has the stable names of a fetched kernel: vmlinuz, modules, headers, release. An up-to-date kernel is not
# rebuilt. JOBS and NICE limit the load of the build.

set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
store=$top/build/kernels

die() {
	echo "debug-kernel.sh: $*" >&2
	exit 1
}

# In a git work tree the release name would get a "+"; LOCALVERSION, even empty, prevents that.
build() {
	nice -n "${NICE:-10}" make -C "$source" O="$target/objects" -j"${JOBS:-$(nproc)}" "LOCALVERSION=-hawser-$flavour" \
		${compiler:+"CC=$compiler"} "$@"
}

wanted_options() {
	cat "$settings/machine.config" "$settings/$flavour.config"
	[ ! -e "$settings/$flavour-$version.config" ] || cat "$settings/$flavour-$version.config"
}

# Options that did not take effect, one a line.
missing_options() {
	grep '^CONFIG_' "$config" | while read -r option; do
		case $option in
		*=n) ! grep -qxF "${option%n}y" "$target/objects/.config" || echo "$option" ;;
		*) grep -qxF "$option" "$target/objects/.config" || echo "$option" ;;
		esac
	done
}

configure() {
	config=$target/config
	wanted_options >"$config"
	build KCONFIG_ALLCONFIG="$config" allnoconfig >"$log" 2>&1 || die "no configuration, see $log"
	missing=$(missing_options)
	[ -z "$missing" ] || die "these options did not take effect:
$missing"
}

# Everything but the headers, which are the object folder itself.
publish() {
	rm -rf "$target/root.new"
	build INSTALL_MOD_PATH="$target/root.new" DEPMOD=/sbin/depmod modules_install >>"$log" 2>&1 ||
		die "modules_install failed, see $log"
	release=$(cat "$target/objects/include/config/kernel.release")
	cp "$target/objects/arch/x86/boot/bzImage" "$target/root.new/vmlinuz"
	rm -rf "$target/root"
	mv "$target/root.new" "$target/root"
	ln -sfn root/vmlinuz "$target/vmlinuz"
	ln -sfn "root/lib/modules/$release" "$target/modules"
	ln -sfn objects "$target/headers"
	echo "$release" >"$target/release"
	echo "$stamp" >"$target/stamp"
}

[ $# = 1 ] || die "which kernel? 6.1-debug"
version=${1%-*}
flavour=${1##*-}
settings=$top/scripts/debug-kernel
[ -e "$settings/$flavour.config" ] && [ "$flavour" != machine ] || die "$1: there is no flavour '$flavour'"
source=$store/$version-source
target=$store/$1
log=$target/build.log
# Only clang generates the checks of kernel CFI. Make's default serves the others.
case $flavour in
cfi) compiler=clang-19 ;;
*) compiler= ;;
esac

mkdir -p "$target/objects"
# A second caller waits and finds the work done.
exec 9>"$target/.lock"
flock 9
"$top/scripts/kernels.sh" --source "$version"
stamp=$({ wanted_options && cat "$source/Makefile"; } | sha256sum)
[ "$stamp" != "$(cat "$target/stamp" 2>/dev/null)" ] || [ ! -e "$target/headers" ] || exit 0

rm -f "$target/stamp"
echo "debug-kernel.sh: building the debug kernel $1 (its output goes to $log); this takes 7 minutes on two idle" \
	"processors"
configure
build bzImage modules >>"$log" 2>&1 || { tail -n 30 "$log" >&2; die "the kernel does not build"; }
publish
echo "debug-kernel.sh: $(cat "$target/release") is in build/kernels/$1"
