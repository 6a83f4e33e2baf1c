#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# check-debug.sh KERNEL [SCENE...]     the tests in virtual machines, on a debug kernel (6.1-debug)
#
# First the proof that this kernel detects faults in C and in C++: scenes that misbehave on purpose, each of which
# must fail for the expected reason. Then all scenes, in which any report of the kernel is a failure.

set -u
cd "$(dirname "$0")/.." || exit 1

kernel=$1
shift
scale=${LAB_TIME_SCALE:-4}	# KASAN and lockdep are that slow
lab() {
	command=$1
	shift
	scripts/lab/lab "$command" --default-host "$kernel:ours" --mem 2048 --time-scale "$scale" "$@"
}

case $kernel in
*-kcsan) bites=selftests/kapi/fails_race.sh ;;
*-cfi) bites=selftests/kapi/fails_cfi.sh ;;
*) bites="selftests/kapi/fails_out_of_bounds.sh selftests/lab/fails_debug_leak.sh selftests/lab/fails_debug_locks.sh" ;;
esac
if [ $# = 0 ]; then
	set -- selftests/kapi/kapi.sh selftests/lab/rds_flow.sh
	for scene in selftests/rds/*.sh selftests/kcm/*.sh selftests/rtrs/*.sh; do
		case $scene in
		# A story is for people.
		*/story.sh | */story_rdma.sh) ;;
		# These kernels have no ext4.
		*/rnbd_files.sh) ;;
		# With CFI the kernel's own RNBD ends at the first write to map_device: that function has not the type by
		# which sysfs calls it.
		*/rtrs/blktests.sh | */rtrs/hostile.sh | */rtrs/rnbd.sh | */rtrs/sysfs.sh)
			[ "${kernel%-cfi}" != "$kernel" ] || set -- "$@" "$scene" ;;
		# It expects an end before a timer tick, 4 million instructions; this kernel needs them for the work itself.
		*/kcm_clock.sh) ;;
		# Not every kernel can inject allocation failures.
		*/starve.sh | */poor.sh) [ "${kernel%-debug}" = "$kernel" ] || set -- "$@" "$scene" ;;
		*) set -- "$@" "$scene" ;;
		esac
	done
fi

bad=0
echo "check-debug: scenes with planted faults, which the kernel must report"
# shellcheck disable=SC2086 # a list of names
lab bite $bites || bad=1
echo "check-debug: all scenes"
lab run "$@" || bad=1
[ $bad = 0 ] || echo "check-debug: failed" >&2
exit $bad
