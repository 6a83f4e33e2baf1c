#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=2 time=120
# files: build/static/rds-ping build/static/rds-info selftests/lib/unload.sh selftests/rds/dumps.py /usr/bin/jq
# files: build/selftests/kcm_echo_example /usr/bin/python3 build/selftests/pyynl Documentation/netlink/specs/hawser.yaml
#
# What programs read over generic netlink, and are notified of: with rds-info, and with the kernel's own reader of
# specifications.
# Both have hawser's modules.

. verdicts
. unload.sh

export PYTHONHOME=/lab/files/pyynl PYTHONDONTWRITEBYTECODE=1

ynl() {
	python3 /lab/files/pyynl/ynl/cli.py --no-schema --spec /lab/files/hawser.yaml --output-json "$@" >out 2>err
}
json() { # name expression
	jq -es "$2" out >/dev/null 2>jq.err
	verdict $? "$1"
}

cd /tmp || exit 1
load_rds
if [ "$HOST" = b ]; then
	barrier loaded
	barrier asked
	unload rds_tcp
	barrier gone
	echo 1..0
	exit 0
fi
barrier loaded
rds-info --events >events &
watcher=$!
rds-info --events --json >events.json &
json_watcher=$!
sleep 1
rds-ping -c 3 -i 100ms "$IP_b" >ping.out
sleep 1
rds-info -p --json >out
json "rds-info: the first path is up" 'first.paths | map(select(.remote_address == env.IP_b and .path == 0)) | .[0] |
	.state == "up" and .reason == "established" and .local_address == env.IP_a and .transport == "tcp"'
json "... with a peer of the right kind" 'first.paths[0].peer == "hawser"'
json "... and a round-trip time, bytes both ways, and nothing that waits" 'first.paths | (map(.tx_bytes) | add) >= 3 * 48
	and (map(.rx_bytes) | add) >= 3 * 48 and (map(.queued) | add) == 0 and (map(.drops + .retransmits) | add) == 0
	and .[0].rtt_us > 0 and .[0].age_ms > 900'
rds-info -p >out
grep -qE "^ *$IP_a +$IP_b +0 +0 +up +established +[0-9.]+s hawser +0 +[1-9][0-9]* +[1-9][0-9]* +0 +0 +[0-9]+us$" out
verdict $? "rds-info: the same as a table"

json_timed='map(.latency // [] | .[] | .messages) | add'
rds-info -p --json >out
json "rds-info: how long messages waited, of which each is in one range" 'first.paths | ('"$json_timed"') as $timed |
	$timed >= 1 and $timed <= 40 and all(.[].latency[]; .below_us == null or .below_us == ([1, 2 * .from_us] | max))'
rds-info -pv >out
grep -qE '^    acknowledged after us: \[[0-9]+,[0-9]+\) [0-9]+(, |$)' out
verdict $? "... also in the table"

ynl --dump rds-connection-get
json "ynl: how long messages waited" '.[0][0].path | map(.latency // [] | add // 0) | add >= 1'
json "ynl: the connection" '.[0] | length == 1 and .[0].remote == env.IP_b and .[0].local == env.IP_a and .[0].peer == "hawser"
	and (.[0].path | map(select(.index == 0)) | .[0].state) == "up"'
json "ynl: its TCP sockets" '.[0][0].path | map(select(.state == "up")) | length >= 1 and
	all(.tcp["remote-port"] == 16385 and .tcp["local-port"] > 1024 and .tcp["seen-una"] == .tcp["expected-una"])'
rds-info -P --json >out 2>err
json "rds-info: the peer" 'first.peers | length == 1 and .[0].remote_address == env.IP_b and .[0].local_address == env.IP_a
	and .[0].peer == "hawser" and .[0].paths_up >= 1 and .[0].paths_up <= .[0].paths and .[0].tx_bytes > 0'
rds-ping -c 1000 -i 100ms "$IP_b" >ping.out &
pinger=$!
sleep 1
# While nothing counts. The rows of rds-info are those of netlink, too; a socket of RDS has the same.
ynl --dump rds-counter-get
cp out counters
rds-info -c --json >out
jq -es '(.[1] | map(.name) | sort) == (.[0].counters | keys) and (.[1] | map(.value) | add) > 0' out counters >/dev/null
verdict $? "ynl: the counters"
ynl --dump rds-socket-get
json "ynl: the sockets of a program" '.[0] | length == 8 and all(.[]; .local == env.IP_a and .inode > 0 and .unread == 0)'
kill $pinger
wait $pinger
mkfifo filling
python3 /lab/files/dumps.py fill "$IP_a" 300 10.0.0.99 <filling >filled 2>&1 &
filler=$!
exec 4>filling
until grep -q . filled; do sleep 0.1; done
ynl --dump rds-queue-get --json '{"kind": "send"}'
json "ynl: a queue, in parts" '.[0] | length > 1 and all(.kind == "send" and .local == env.IP_a and .remote == "10.0.0.99" and
	.transport == "tcp") and (map(.message[]) | length == 300 and all(.bytes == 5 and .["remote-port"] == 9) and
	(map(.sequence) | . == sort and unique == .))'
ynl --dump rds-queue-get --json '{"kind": "receive"}'
json "... a socket's" '.[0] | length == 1 and .[0].kind == "receive" and .[0].local == env.IP_a and
	(.[0].message | map(.bytes) == [1, 2, 3] and all(.remote == env.IP_a))'
ynl --dump rds-queue-get
json "... all" '.[0] | map(.kind) | unique == ["receive", "send"]'
ynl --dump rds-queue-get --json '{"kind": 4}'
grep -q "Invalid argument" out err
verdict $? "... none of an unknown kind"
exec 4>&-
wait $filler
ynl --dump kcm-connection-get
grep -q "Operation not supported" out err
verdict $? "ynl: a module that is not loaded"
load_suite kcm
setsid kcm_echo_example serve 16500 >echo.out 2>&1 </dev/null &
server=$!
for _ in $(seq $((100 * TIME_SCALE))); do
	kcm_echo_example ask 16500 "hello" >out 2>err && break
	sleep 0.1
done
ynl --dump kcm-connection-get
json "ynl: a connection of KCM, which has ended" '.[0] | length == 1 and .[0]["rx-messages"] == 1
	and .[0]["tx-bytes"] == 9 and .[0].remote == "127.0.0.1" and .[0]["local-port"] == 16500 and .[0].error == 32
	and (.[0].state | index("rx-stopped") != null)'
rds-info -K --json >out 2>err
json "rds-info: the same connection" 'first.kcm_connections | length == 1 and .[0].rx_messages == 1 and .[0].tx_bytes == 9
	and .[0].remote_address == "127.0.0.1" and .[0].local_port == 16500 and .[0].error == 32 and .[0].rx_stopped'
# The server's socket, and nothing that waits in it.
ynl --dump kcm-mux-get
json "ynl: its multiplexor" '.[0] | length == 1 and .[0].sockets >= 1 and .[0].connections == 1 and .[0]["rx-messages"] == 1
	and .[0]["tx-messages"] == 1 and .[0]["tx-bytes"] == 9 and .[0].unread == 0 and .[0].unsent == 0'
rds-info -M --json >out 2>err
json "rds-info: the same multiplexor" 'first.kcm_multiplexors | length == 1 and .[0].connections == 1 and .[0].tx_bytes == 9'
kill -TERM -$server
wait $server
unload kcm
as_nobody() {
	python3 -c 'import os, sys; os.setgroups([]); os.setuid(65534); os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}
as_nobody rds-info -p --json >out
json "any user may read" 'first.paths | length > 0'
as_nobody rds-info --events >out 2>err
[ $? = 1 ] && grep -q "not permitted" err
verdict $? "... but not listen"

python3 /lab/files/dumps.py count "$IP_a" 900 >out 2>&1
verdict $? "900 sockets, in pieces, each once"

barrier asked
barrier gone
for _ in $(seq $((100 * TIME_SCALE))); do
	grep -q "path 0: up -> closing" events && break
	sleep 0.1
done
kill $watcher $json_watcher
cp events out
grep -qE "^[0-9:]{8} $IP_a -> $IP_b tos 0 path 0: connecting -> up \(established\)$" out
verdict $? "event: the path comes up"
grep -qE "^[0-9:]{8} $IP_a -> $IP_b tos 0 path 0: up -> closing \(lost\)$" out
verdict $? "event: the peer's module goes"
kcm_event='^[0-9:]{8} 127\.0\.0\.1 port 16500 -> 127\.0\.0\.1 port [0-9]+ kcm mux [0-9]+ connection [0-9]+:'
grep -oE "$kcm_event (attached|ended \(Broken pipe\)|detached \(Broken pipe\))$" events >out
[ "$(sed 's/.*: //; s/ .*//' out | tr '\n' ' ')" = "attached ended detached " ]
verdict $? "events: a connection of KCM, whose peer goes before its program"
cp events.json out
json "... as JSON" 'map(select(.object == "kcm-connection")) | map(.change) == ["attached", "ended", "detached"] and
	map(.error) == [0, 32, 32] and all(.[]; .id == 1 and .mux == 1 and .local_port == 16500)'
json "... with those of paths" 'map(select(.object == "rds-path" and .path == 0)) | map(.state) | index("up") != null'

mkfifo go
python3 /lab/files/dumps.py hold "$IP_a" 900 <go >held 2>&1 &
reader=$!
exec 3>go
until grep -q . held; do sleep 0.1; done
unload rds_tcp
rmmod rds 2>out
[ $? != 0 ] && grep -q "unavailable" out
verdict $? "the module is held by a program that has not read all"
exec 3>&-
wait $reader
unload rds hawser
verdict $? "... and goes when it has"
end_of_verdicts
