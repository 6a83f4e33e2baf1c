#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build-modules.sh OUT KDIR COMMAND...: runs Kbuild and checks its output.
set -euo pipefail

out=$1
kdir=$2
shift 2
log=$out/build.log

# pahole reports the C++ types that it omits, and those that refer to them, even with the option to omit all of them.
"$@" modules 2>&1 | sed -u -e '/^make\[[0-9]*\]: [EL]/d' -e '/^Skipping BTF generation/d' \
	-e '/^die__process/d' -e '/^tag__recode_dwarf_type/d' |
	tee "$log"

# objtool only warns, and only once for an object: such objects must be rebuilt next time.
if grep 'warning: objtool:' "$log" >/dev/null; then
	sed -n 's/^\(.*\.o\): warning: objtool:.*/\1/p' "$log" | sort -u | while read -r object; do
		(cd "$out" && rm -f "$object")
	done
	echo "build-modules: objtool reported the warnings above" >&2
	exit 1
fi

mapfile -t modules < <(sed "s|^|$out/|; s|^$out/$out/|$out/|; s|\.o\$|.ko|" "$out/modules.order")
"$(dirname "$0")/check-module.sh" "$kdir" "$out/Module.symvers" "${modules[@]}"
