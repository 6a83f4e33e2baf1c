#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The modules that DKMS has built and the programs of the packages, as scripts/packages.sh has installed them; or, where the
# suite is the kernel's own, the programs with those. Traffic between the two, and whose modules they report.
#
# lab: hosts=2 time=120
# files: build/packages/result/usr/bin/rds-ping build/packages/result/usr/bin/rds-info build/packages/result/usr/bin/rds-stress
# files: build/packages/result/usr/bin/kcm-server build/packages/result/usr/bin/kcm-client
# files: Documentation/examples/sysctl.d/hawser.conf /usr/bin/jq
# files: build/packages/result/usr/lib/hawser/check-modules

. verdicts

reports() { # text
	rds-info --version >out 2>err
	grep -q "$1" out
	verdict $? "rds-info --version: $1"
}

# What hawser-dkms.service runs.
check_modules() { # status text
	check-modules >out 2>err
	[ $? = "$1" ] && [ "$(grep -o 'are loaded:.*\. ' err)" = "$2" ]
	verdict $? "check-modules: exit $1, '$2'"
}

reports '^rds: not loaded$'
check_modules 0 ''
if [ "$SUITE" = ours ]; then
	load_suite rds rds_tcp rds_rdma kcm rtrs_core rtrs_client rtrs_server >out 2>err
	verdict $? "all modules load"
	for module in rds rds_tcp rds_rdma kcm rtrs_core rtrs_client rtrs_server; do
		reports "^$module: hawser's module [0-9.]*\$"
	done
	check_modules 0 ''
	sysctl -p /lab/files/hawser.conf >out 2>err && [ ! -s err ]
	verdict $? "the example of settings is accepted"
	grep -vc '^#' /lab/files/hawser.conf >lines
	[ "$(wc -l <out)" = "$(cat lines)" ]
	verdict $? "... all of it"
else
	load_suite rds rds_tcp kcm >out 2>err
	verdict $? "the kernel's own modules load"
	for module in rds rds_tcp kcm; do
		reports "^$module: the kernel's own module"
	done
	check_modules 1 'are loaded: rds rds_tcp kcm. '
fi
barrier loaded

peer=$IP_b
[ "$HOST" = a ] || peer=$IP_a
rds-ping -c 5 -i 100ms -W 20 --json "$peer" >out 2>err </dev/null
jq -e '.received == 5' out >/dev/null
verdict $? "rds-ping"
barrier pinged

if [ "$HOST" = b ]; then
	rds-stress --json >out 2>err </dev/null
else
	rds-stress -s "$IP_b" --connect-retries 20 --json -T 3 -t 2 -d 4 -q 4096 -v >out 2>err </dev/null
fi
[ $? = 0 ] && jq -e '.good and .counts.acks_received == .counts.requests_sent and .counts.requests_sent > 0' out >/dev/null
verdict $? "rds-stress"
barrier stressed

# The programs for KCM need ours.
if [ "$SUITE_a $SUITE_b" = "ours ours" ]; then
	if [ "$HOST" = b ]; then
		kcm-server >out 2>err </dev/null &
		until grep -q listening err || ! kill -0 $!; do
			sleep 0.1
		done
		barrier listening
		barrier asked
		kill -TERM $!
		wait $!
		verdict $? "kcm-server"
	else
		barrier listening
		kcm-client --json -n 200 "$IP_b" >out 2>err </dev/null
		jq -e '.good and .counts.answers == .counts.requests' out >/dev/null
		verdict $? "kcm-client"
		barrier asked
	fi
fi
barrier finished
end_of_verdicts
