#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# setup.sh SET...    installs, through apt, the missing packages of these sets:
#   build   compile the modules for an installed or fetched kernel
#   host    compile and run the tests that run on the host: unit tests, simulator, fuzzers, static checks
#   lab     boot the virtual machines
#   kernel  compile a whole kernel (the debug kernel)
#   rdma    test programs that use verbs themselves, and tests of disks over RDMA
#   deb     build Debian packages, check them and try DKMS
#   bench   raw verbs, beside which RDS over RDMA is measured
#   arm64   compile for arm64 and boot its virtual machines, beside build and lab
#
# It prints the packages and uses sudo when not root. With nothing missing it is silent, needs no network
# and takes a tenth of a second.

set -eu

packages_of() {
	case $1 in
	build) echo gcc g++ make libc6-dev pahole kmod bison flex libssl-dev libelf-dev bc rsync xz-utils ;;
	host) echo g++ make clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19 libgtest-dev \
		libgmock-dev libbenchmark-dev python3 ;;
	lab) echo qemu-system-x86 seabios busybox-static dash iproute2 ethtool kmod python3 gcc libc6-dev make \
		apt xz-utils zstd util-linux binutils jq cpio e2fsprogs trace-cmd python3-yaml liburing-dev ;;
	rdma) echo libibverbs-dev librdmacm-dev fio ;;
	kernel) echo gcc g++ make bc bison flex libelf-dev libssl-dev pahole rsync cpio kmod xz-utils perl python3 ;;
	deb) echo build-essential debhelper dpkg-dev dh-dkms dkms lintian mmdebstrap pkg-config git openssl kmod patch xz-utils \
		bpftrace ;;
	bench) echo perftest ibverbs-providers ;;
	arm64) echo gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-12-aarch64-linux-gnu g++-12-aarch64-linux-gnu \
		libc6-dev-arm64-cross qemu-system-arm ipxe-qemu ;;
	*)
		echo "setup.sh: unknown set $1; there are build, host, lab, kernel, rdma, deb, bench, arm64" >&2
		exit 2
		;;
	esac
}

# Prints the packages that are not installed.
missing_of() {
	installed=$(dpkg-query -W -f '${Package} ${db:Status-Status} ' "$@" 2>/dev/null || :)
	for package; do
		case " $installed" in
		*" $package installed "*) ;;
		*) echo "$package" ;;
		esac
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		# Callers redirect the output to a log; this must be visible.
		echo "setup.sh: neither root nor sudo; ask an administrator to run: $*" >&3
		exit 1
	fi
}

# Output of the packages goes to $log.
install() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >"$log" 2>&1
}

[ $# -gt 0 ] || { echo "usage: setup.sh build|host|lab|kernel|rdma|deb|bench|arm64..." >&2; exit 2; }
wanted=
for set; do
	wanted="$wanted $(packages_of "$set")"
done
# shellcheck disable=SC2046,SC2086 # lists of names
missing=$(missing_of $(printf '%s\n' $wanted | sort -u))
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "setup.sh: no apt here; please install the equivalents of: $missing" >&2
	exit 1
fi
exec 3>&2
echo "setup.sh: installing $(echo "$missing" | tr '\n' ' ')"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Missing or old package lists make the install fail; only then are they fetched.
# shellcheck disable=SC2086
if ! install $missing; then
	echo "setup.sh: fetching package lists"
	as_root apt-get update -qq >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
	# shellcheck disable=SC2086
	install $missing || { cat "$log" >&2; exit 1; }
fi
echo "setup.sh: done"
