#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Modules are replaced by those of another version under traffic, as scripts/packages.sh has kept both: a's by the next version
# and back, then b's, then a's again. So each version sends to each other one, from both sides. The other host's modules and
# program stay. Messages of RDS to a program that is ended may be lost; none is duplicated or overtaken. Over KCM programs of the
# other host ask a server, which is ended with its module, and started again with the next one: no answer is wrong.
#
# The transport of RDS is TCP. upgrade_rdma.sh is the same over RDMA.
#
# lab: hosts=2 time=200
# files: build/packages/result/usr/bin/rds-info build/selftests/xfer selftests/lib/unload.sh selftests/lib/versions.sh
# files: build/packages/result/usr/bin/kcm-server build/packages/result/usr/bin/kcm-client /usr/bin/jq
# files: build/packages/programs-before/kcm-server-before build/packages/programs-before/kcm-client-before
# modules: build/packages/modules-before/{kver}/hawser.ko build/packages/modules-before/{kver}/rds.ko
# modules: build/packages/modules-before/{kver}/rds_tcp.ko build/packages/modules-before/{kver}/kcm.ko

. verdicts
. unload.sh
. versions.sh
transport=${transport:-rds_tcp}
verbs=${verbs:-}

load() { # version
	# shellcheck disable=SC2086 # none, or one
	load_version "$1" hawser $verbs rds $transport kcm
}

is_loaded() { # version
	is_version "$1" rds "$transport" kcm
}

# The host's own program, for so many seconds; what it reports is in out.
exchange() { # seconds option...
	seconds=$1
	shift
	eval "own=\$IP_$HOST peer=\$IP_$other"
	xfer --own "$own" --peer "$peer" --seconds "$seconds" --rate 1000 --size 64-4096 --lossy --patience 120 "$@" >out 2>err
}

# Programs for KCM of the modules' version: those of a newer one may need what older modules do not have.
of_version() { # version program
	[ "$1" = next ] && echo "$2" || echo "$2-$1"
}

# The server of KCM; it is ended without warning.
serve() { # version
	"$(of_version "$1" kcm-server)" -w 2 >server.out 2>server.err </dev/null &
	server=$!
	until grep -q listening server.err || ! kill -0 $server 2>/dev/null; do
		sleep 0.1
	done
}

end_server() {
	kill -KILL $server
	! wait $server
}

# One program after the other asks it, until there is the file over. Their reports are in asked.
ask() { # version address
	: >asked
	while [ ! -e over ]; do
		"$(of_version "$1" kcm-client)" -c 4 -k 2 -T 1 --json "$2" >>asked 2>/dev/null </dev/null || sleep 0.2
	done
}

has_answers() {
	jq -se 'map(.counts) | (map(.answers) | add) > 0 and all(.strange + .damaged + .disordered == 0)' asked >out 2>err
	verdict $? "... and no answer over KCM was wrong: $(jq -s 'map(.counts.answers) | add' asked)"
	eval "$(of_version "$others" kcm-client) -c 4 -k 2 -n 50 \$IP_$changing" >out 2>err
	verdict $? "... and the last server answers"
}

# One host replaces its modules, while its program sends and receives, until the last version is loaded; the other has one
# program from the beginning to the end.
replace() { # host version-of-the-other version...
	changing=$1
	others=$2
	shift 2
	if [ "$HOST" != "$changing" ]; then
		is_loaded "$others"
		verdict $? "$HOST has the version: $others, while $changing has: $*"
		rm -f over
		eval "ask $others \$IP_$changing &"
		asking=$!
		exchange $((4 * $# + 9 * TIME_SCALE))
		verdict $? "... whose program receives each message at most once, in order: $(grep -o 'received .*' out)"
		touch over
		wait $asking
		has_answers
		barrier "replaced-$number"
		return
	fi
	serve "$1"
	while [ $# -gt 1 ]; do
		exchange 60 &
		exchanging=$!
		sleep 4
		rmmod $transport 2>/dev/null
		! rmmod rds 2>/dev/null && ! rmmod kcm 2>/dev/null
		verdict $? "modules that a program uses are not unloaded"
		kill -KILL $(pidof xfer)
		wait $exchanging
		end_server
		unload $(lsmod | grep -o "^$transport") rds kcm $verbs hawser >out 2>err
		verdict $? "when the program has ended they are: $1"
		shift
		load "$1" && is_loaded "$1"
		verdict $? "... and others are loaded: $1"
		serve "$1"
	done
	exchange 6
	verdict $? "... and carry traffic to and from the version: $others: $(grep -o 'received .*' out)"
	barrier "replaced-$number"
	end_server
}

other=b
[ "$HOST" = a ] || other=a
load before && is_loaded before
verdict $? "the version before is loaded"
timeout $((5 * TIME_SCALE)) kcm-server -p 16401 >out 2>err </dev/null
[ $? = 124 ] || grep -q 'the module kcm is older than this program' err
verdict $? "a newer kcm-server runs with it, or says that it needs a newer one: $(tail -n 1 err)"
number=0
for step in "a before before next before" "b before before next" "a next before next"; do
	number=$((number + 1))
	barrier "before-$number"
	replace $step
	barrier "after-$number"
done
is_loaded next
verdict $? "all modules are of the next version"
end_of_verdicts
