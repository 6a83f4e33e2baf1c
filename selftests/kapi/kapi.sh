# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60
#
# Loads kapi's self-test, which runs while it loads, twice: the second run shows that the first one cleaned up.

report() {
	dmesg | sed -n 's/^.*kapi_test: \(\(not \)\{0,1\}ok .*\|1\.\..*\)$/\1/p'
}

modprobe kapi_test || true
rmmod kapi_test || true
report
report >/tmp/first
dmesg -c >/dev/null
modprobe kapi_test || true
rmmod kapi_test || true
report >/tmp/second
if ! cmp -s /tmp/first /tmp/second; then
	echo "Bail out! the second run differs from the first:"
	sed 's/^/# /' /tmp/second
fi
