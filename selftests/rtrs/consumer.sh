#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=120 mem=768
# files: selftests/lib/rdma_pair.sh
# modules: crc32_pclmul
#
# The interface that RTRS exports to other modules, used by a module that is no RNBD: client and server in one machine, between
# two Soft-RoCE devices. The module's tests run while it loads, twice: the second run shows that the first one cleaned up.

. verdicts
. rdma_pair.sh

tests() {
	dmesg -c >/dev/null
	load_suite rtrs-core rtrs-client rtrs-server >out 2>err && modprobe rtrs_test >>out 2>>err
	passed=$?
	rmmod rtrs_test >>out 2>&1
	dmesg | sed -n 's/^.*rtrs_test: //p' >>err
	return $passed
}

tests
verdict $? "a module uses RTRS: $(grep -c '^ok' err) tests"
tests
verdict $? "once more: nothing is left behind"
rmmod rtrs_client rtrs_server >out 2>err
verdict $? "RTRS's modules can go"
end_of_verdicts
