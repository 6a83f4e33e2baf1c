#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=60 links=faulty
# files: build/static/rds-ping build/static/rds-info build/selftests/without selftests/lib/soon.sh selftests/rds/dumps.py
# files: /usr/bin/python3 build/selftests/pyynl /usr/bin/jq
#
# rds-info where no socket of RDS can be opened shows the same as by the options of one.

. verdicts
. soon.sh

export PYTHONHOME=/lab/files/pyynl PYTHONDONTWRITEBYTECODE=1
RDS=21 NETLINK=16

# What both show is compared when nothing has changed in between: a connection attempt ends or begins, for one.
same() { # options of rds-info
	without $RDS rds-info "$@" >out 2>err && without $NETLINK rds-info "$@" >asked 2>err && cmp -s out asked
}
is_same() { # name options
	name=$1
	shift
	soon same "$@"
	verdict $? "$name"
}
all_paths_are_up() {
	[ "$(rds-info -T | grep -c "$IP_b *16385 ")" -ge 8 ]
}
comes_again() {
	[ "$(grep -c send_queue watched)" -ge 3 ]
}

cd /tmp || exit 1
load_rds
echo 600000 >/proc/sys/net/rds/tcp/rds_tcp_dead_peer_ms # the streams stay while the link is cut
barrier loaded
if [ "$HOST" = b ]; then
	barrier cut
	barrier shown
	echo 1..0
	exit 0
fi
rds-ping -c 8 -i 10ms "$IP_b" >out
soon all_paths_are_up
barrier cut
link cut
mkfifo go
python3 /lab/files/dumps.py fill "$IP_a" 400 "$IP_b" 10.0.0.99 <go >filled 2>&1 &
filler=$!
exec 3>go
soon grep -q held filled

without $RDS rds-ping -c 1 "$IP_b" >out 2>&1
[ $? = 1 ]
verdict $? "no socket of RDS can be opened"
is_same "connections" -n
[ "$(grep -c "^ *$IP_a *$IP_b " out)" -ge 8 ]
verdict $? "... one for each path"
is_same "... with their ports" -nv
is_same "TCP sockets" -T
[ "$(grep -c "^ *$IP_a *[0-9]* *$IP_b *16385 " out)" -ge 8 ]
verdict $? "... one for each path"
is_same "messages that are not read" -r
[ "$(grep -cE "^ *$IP_a +[0-9]+ +$IP_a +[0-9]+ +0 +[0-9]+ +[123]$" out)" = 3 ]
verdict $? "... three"
is_same "messages that are not sent" -s
[ "$(grep -cE "^ *$IP_a +[0-9]+ +10.0.0.99 +9 +0 +[0-9]+ +5$" out)" = 400 ]
verdict $? "... all of them"
is_same "messages that are not acknowledged" -t
grep -qE "^ *$IP_a +[0-9]+ +$IP_b +9 +0 +[0-9]+ +5$" out
verdict $? "... those that TCP has taken"
is_same "the same as JSON" -nTrst --json
jq -e '(.connections | length) >= 9 and (.tcp_sockets | length) >= 8 and (.send_queue | length) >= 400 and
	.ib_connections == null' out >/dev/null
verdict $? "... with all of it"
without $RDS rds-info -av >out 2>err
verdict $? "all tables"
without $RDS rds-info -I >out 2>err
[ $? = 1 ] && grep -q "no table of connections over RDMA" err
verdict $? "... but that of a transport that is not loaded"
without $RDS rds-info -s --json --watch=100ms >watched 2>&1 &
watcher=$!
soon comes_again
verdict $? "again and again"
kill $watcher
without $NETLINK rds-info -p >out 2>err
[ $? = 1 ] && grep -q "no table of paths" err
verdict $? "without netlink: no table that only netlink has"
link up
exec 3>&-
wait $filler
barrier shown
end_of_verdicts
