#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# check-module.sh KDIR SYMVERS MODULE.ko...
#
# Fails when a linked module holds something that the kernel would not run, would not accept or would not
# unwind: static constructors, exception tables, section groups, symbols that no module exports; or lacks type
# information that it should have; or names the folder that it was built in, so that no two builds are the same.
set -eu

kdir=$1
symvers=$2
shift 2
failed=0

complain() {
	echo "check-module: $(basename "$module"): $*" >&2
	failed=1
}

folder=$(dirname "$symvers")
known=$(mktemp)
trap 'rm -f "$known"' EXIT
awk '{ print $2 }' "$kdir/Module.symvers" "$symvers" | sort -u >"$known"

# Sanitizers add constructors to every object, and a kernel with them runs them; with KCSAN the compiler adds some
# that are never run.
never=".eh_frame .gcc_except_table"
grep -qE '^CONFIG_(CONSTRUCTORS|KCSAN)=y' "$kdir/include/config/auto.conf" || never="$never .init_array .ctors .fini_array .dtors"
# UBSAN's reports name source files as the compiler was given them: -ffile-prefix-map does not map those.
has_places=no
! grep -q '^CONFIG_UBSAN=y' "$kdir/include/config/auto.conf" || has_places=yes

for module; do
	sections=$(readelf -SW "$module")
	for bad in $never; do
		if echo "$sections" | grep -qE "\] (\.rela)?${bad%%.*}\\$bad(\.[0-9]+)? "; then
			complain "has a section $bad: a static constructor, or C++ compiled without the project's flags"
		fi
	done
	if echo "$sections" | grep -qE ' GROUP +[0-9a-f]{16}'; then
		complain "has section groups: linked without --force-group-allocation"
	fi
	unknown=$(nm -u "$module" | awk '{ print $2 }' | sort -u | comm -23 - "$known" | tr '\n' ' ')
	if [ -n "$unknown" ]; then
		complain "needs what neither the kernel nor our modules export: $unknown"
	fi
	if [ "$has_places" = no ] && grep -qaF "$folder/" "$module"; then
		complain "names the folder that it was built in: an object was compiled without -ffile-prefix-map"
	fi
	# With BTF in the kernel, the C part of a module has BTF, too.
	if [ -f "$kdir/vmlinux" ] && grep -q '^CONFIG_DEBUG_INFO_BTF_MODULES=y' "$kdir/include/config/auto.conf" &&
		! echo "$sections" | grep -qE '\] \.BTF '; then
		complain "has no BTF; is pahole installed?"
	fi
done
exit $failed
