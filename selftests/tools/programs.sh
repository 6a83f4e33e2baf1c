#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The programs on a host whose kernel has no RDS and no KCM: command lines, errors, output, JSON, and whether rds-stress
# detects the faults of a bad network. fake-rds.c replaces the kernel for the RDS programs, and fake-kcm.c for those of KCM, as
# far as they need no messages; with messages they have a scene, selftests/kcm/server.sh.
#
#   programs.sh folder-with-the-programs-and-fake-rds.so
set -u
bin=$(realpath "$1")
manuals=$(dirname "$0")/../../Documentation/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tests=0
failures=0

# Several runs on one host must not use the same port; if a run's port is taken, its first test fails.
port=$((20000 + RANDOM % 10000))

verdict() { # status name
	tests=$((tests + 1))
	if [ "$1" = 0 ]; then
		echo "ok $tests $2"
		return
	fi
	failures=$((failures + 1))
	echo "not ok $tests $2"
	sed 's/^/# /' "$work"/* 2>/dev/null | head -60
	rm -f "$work"/*
}

# Runs a program; its output is in $work/out and $work/err afterwards, its exit status in $status.
run() {
	"$@" >"$work/out" 2>"$work/err" </dev/null
	status=$?
}

fake() {
	LD_PRELOAD="$bin/fake-rds.so" "$@"
}

# exits <status> <text that stderr contains> command...
exits() {
	local expected=$1 text=$2
	shift 2
	run "$@"
	[ "$status" = "$expected" ] && grep -qF -- "$text" "$work/err"
	verdict $? "$(basename "$1") ${*:2}: exit $expected, '$text'"
}

# Does the JSON in $work/out satisfy a jq expression?
json() { # name expression
	jq -e "$2" "$work/out" >"$work/jq" 2>&1
	verdict $? "$1"
}

says() { # name regular-expression...
	local name=$1 pattern good=0
	shift
	for pattern; do
		grep -qE -- "$pattern" "$work/out" || { echo "missing: $pattern" >>"$work/err"; good=1; }
	done
	verdict $good "$name"
}

# A pair of rds-stress: stress "the active side's FAKE_X=n" options... Leaves its output and both statuses.
stress() {
	local faults=$1 drain=10 passive
	shift
	# What is lost is awaited for all of this time; what is only late, on a busy host, comes within the longer one.
	case $faults in *DROP* | *TWICE* | *SWAP* | *DAMAGE*) drain=1 ;; esac
	port=$((port + 50))
	fake "$bin/rds-stress" -p $port --json >"$work/passive" 2>"$work/passive-err" </dev/null &
	passive=$!
	run env LD_PRELOAD="$bin/fake-rds.so" $faults "$bin/rds-stress" -s 127.0.0.1 -p $port \
		--connect-retries 20 --warm-up 0 --drain-time $drain "$@"
	wait $passive
	passive_status=$?
}

echo "TAP version 13"

# Wrong usage has its own exit status, and every error message names the wrong argument.
exits 2 "which address" "$bin/rds-ping"
exits 2 "'b' too" "$bin/rds-ping" 10.0.0.1 b
exits 2 "bad count 'x'" "$bin/rds-ping" -c x 10.0.0.1
exits 2 "bad interval '1h'" "$bin/rds-ping" -i 1h 10.0.0.1
exits 2 "bad timeout '0'" "$bin/rds-ping" -W 0 10.0.0.1
exits 2 "bad type of service '256'" "$bin/rds-ping" -Q 256 10.0.0.1
exits 2 "bad number of sockets '65'" "$bin/rds-ping" -S 65 10.0.0.1
exits 2 "bad transport 'udp'" "$bin/rds-ping" --transport udp 10.0.0.1
exits 2 "needs its interface" "$bin/rds-ping" fe80::1
exits 2 "bad source address '0.0.0.0'" "$bin/rds-ping" -I 0.0.0.0 10.0.0.1
exits 2 "both be IPv4 or both be IPv6" "$bin/rds-ping" -I ::1 127.0.0.1
exits 2 "rds-ping --help" "$bin/rds-ping" --no-such-option 10.0.0.1
exits 2 "unexpected argument 'x'" "$bin/rds-info" x
exits 2 "rds-info --help" "$bin/rds-info" -z
exits 2 "unexpected argument 'x'" "$bin/rds-stress" x
exits 2 "bad value '39' for --req-bytes: 40 to 1048576" "$bin/rds-stress" -q 39
exits 2 "bad value '2M' for --ack-bytes" "$bin/rds-stress" -a 2M
exits 2 "bad value '0' for --tasks" "$bin/rds-stress" -t 0
exits 2 "do not fit above" "$bin/rds-stress" -p 65000 -t 600
exits 2 "at most 1 MiB" "$bin/rds-stress" -D 1M -I 2
exits 2 "--rdma-cache-mrs" "$bin/rds-stress" --rdma-use-once 1 --rdma-cache-mrs 1
exits 2 "bad remote address '::'" "$bin/rds-stress" -s ::
exits 2 "too many requests" "$bin/rds-stress" -t 1024 -d 65535 -p 1
exits 2 "unexpected argument 'x'" "$bin/kcm-server" x
exits 2 "bad number of workers '65'" "$bin/kcm-server" -w 65
exits 2 "bad port '0'" "$bin/kcm-server" -p 0
exits 2 "bad size '2M'" "$bin/kcm-server" -m 2M
exits 2 "bad steering 'left'" "$bin/kcm-server" --steering left
exits 2 "bad timeout '0'" "$bin/kcm-server" --timeout 0
exits 2 "kcm-server --help" "$bin/kcm-server" -z
exits 2 "which address" "$bin/kcm-client"
exits 2 "bad number of connections '0'" "$bin/kcm-client" -c 0 127.0.0.1
exits 2 "bad size '15': 16 to" "$bin/kcm-client" --min-size 15 127.0.0.1
exits 2 "smallest size is larger" "$bin/kcm-client" --min-size 2K --max-size 1K 127.0.0.1
exits 2 "bad timeout 'x'" "$bin/kcm-client" --timeout x 127.0.0.1
exits 2 "'b' too" "$bin/kcm-client" 127.0.0.1 b
exits 1 "cannot connect to 127.0.0.1, port 1:" "$bin/kcm-client" -p 1 127.0.0.1
for program in rds-ping rds-info rds-stress kcm-server kcm-client; do
	run "$bin/$program" -h
	mv "$work/out" "$work/short"
	run "$bin/$program" --help
	cmp "$work/short" "$work/out" && [ $status = 0 ] && [ ! -s "$work/err" ] && grep -q "^Usage: $program" "$work/out" &&
		grep -q -- --json "$work/out"
	verdict $? "$program --help"
	grep -oE -- ' --?[a-zA-Z][a-z-]*' "$work/out" | sort -u | while read -r option; do
		# As a manual page has it: \-\-req\-bytes
		escaped=${option//-/\\-}
		grep -qF -- "$escaped" "$manuals/$program.1" || echo "$option is not in the manual"
	done >"$work/err"
	[ ! -s "$work/err" ]
	verdict $? "$program: the manual has every option"
done

if [ ! -d /sys/module/hawser ]; then
	exits 1 "no table of connections of KCM" "$bin/rds-info" -K
	exits 1 "no table of paths" "$bin/rds-info" -p
	exits 1 "no table of peers" "$bin/rds-info" -P
	exits 1 "no table of multiplexors of KCM" "$bin/rds-info" -M
fi

# A kernel without RDS; where there is one, other tests cover it.
if ! grep -q '^RDS' /proc/net/protocols; then
	exits 1 "modprobe rds" "$bin/rds-ping" 127.0.0.1
	exits 1 "modprobe rds" "$bin/rds-info" -c
	exits 1 "modprobe rds" "$bin/rds-stress" -s 127.0.0.1
fi
if ! grep -q '^KCM' /proc/net/protocols; then
	exits 1 "modprobe kcm" "$bin/kcm-server"
fi

# shellcheck source=selftests/tools/kcm_programs.sh
. "$(dirname "$0")/kcm_programs.sh"

# rds-ping
run fake "$bin/rds-ping" -c 3 -i 5ms 127.0.0.1
[ $status = 0 ]; verdict $? "ping answers"
says "ping prints the usual format" '^   1: [0-9]+ usec$' '^   3: [0-9]+ usec$' \
	'^3 sent, 3 received, 0% lost' '^rtt min/avg/max = [0-9]+/[0-9]+/[0-9]+ usec$'
run fake "$bin/rds-ping" -c 20 -i 1ms -S 1 --json ::1
json "ping over IPv6 with one socket, as JSON" '.sent == 20 and .received == 20 and (.probes | length) == 20
	and .destination == "::1" and .rtt_us.min <= .rtt_us.avg and .rtt_us.avg <= .rtt_us.max'
FAKE_RDS_DROP=2 run fake "$bin/rds-ping" -c 6 -i 5ms -W 50ms --json 127.0.0.1
[ $status = 0 ]; verdict $? "some answers are enough for exit status 0"
json "ping counts lost answers" '.sent == 6 and .received == 3 and .lost == 3 and .loss_percent == 50'
FAKE_RDS_TWICE=2 run fake "$bin/rds-ping" -c 17 -i 5ms 127.0.0.1
says "ping reports duplicate answers" 'DUP!' ' [1-8] duplicates, 0% lost'
FAKE_RDS_DROP=1 run fake "$bin/rds-ping" -c 2 -i 5ms -W 50ms --json 127.0.0.1
[ $status = 1 ]; verdict $? "no answer is a failure"
json "... and valid JSON" '.received == 0 and .rtt_us == null and .probes == []'
FAKE_RDS_DROP=1 run fake "$bin/rds-ping" -c 12 -i 5ms -S 2 -W 20ms --json 127.0.0.1
json "sockets of probes that timed out are used again" '.sent == 12 and .received == 0'
LD_PRELOAD="$bin/fake-rds.so" timeout -s INT 3 "$bin/rds-ping" -c 0 -i 100ms 127.0.0.1 >"$work/out" 2>"$work/err"
says "an interrupt ends with the summary" 'sent, [0-9]+ received, 0% lost' '^rtt min'

# rds-info
run fake "$bin/rds-info" -c
says "counters" '^ +CounterName +Value$' '^ +conn_reset +7$' \
	'^a_name_of_thirty-two_characters_ 18446744073709551615$'
run fake "$bin/rds-info" -n
says "connections: every entry of a pair" '^ +LocalAddr +RemoteAddr +Tos +NextTX +NextRX Flgs$' \
	'^ +10\.0\.0\.1 +10\.0\.0\.2 +0 +5 +6 --C-$' '^ +10\.0\.0\.1 +10\.0\.0\.2 +3 +7 +8 s---$'
grep -q fd00 "$work/out"; [ $? = 1 ]; verdict $? "no IPv6 without -a"
run fake "$bin/rds-info" -an
says "-a adds IPv6" '10\.0\.0\.1 .* --C-$' 'fd00::1 +fd00::2 +- +9 +10 -c--$'
[ "$(grep -c '10\.0\.0\.1' "$work/out")" = 3 ]; verdict $? "... and shows no IPv4 entry twice"
run fake "$bin/rds-info" -nv
says "-v shows the paths" '--C-  tcp$' 'ports 1000 -> 16385$' 'ports 1001 -> 16385$'
grep -q 1002 "$work/out"; [ $? = 1 ]; verdict $? "... of their own connection only"
[ "$(grep -c 'ports 1000' "$work/out")" = 1 ]; verdict $? "... once, although each path has an entry"
run fake "$bin/rds-info" -kv
says "-v shows the owner of a socket" \
	'^ +10\.0\.0\.1 +4001 +0\.0\.0\.0 +0 +1000 +2000 +[0-9]+ +- +-  [0-9]+ rds-info$'
run fake "$bin/rds-info" --json
json "everything as JSON" '.counters["quote\"d"] == 1 and (.connections | length) == 3
	and (.connections[0].paths | map(.local_port)) == [1000, 1001] and .connections[0].connected
	and .connections[1].paths == [] and .connections[2].paths == [] and (.tcp_sockets | length) == 3 and .send_queue == []
	and .sockets[0].command == "rds-info"
	and .ib_connections == null'
FAKE_RDS_GROW=1 run fake "$bin/rds-info" -c --json
json "a table that grows meanwhile" '.counters.conn_reset == 7'
FAKE_RDS_COUNT=3 run fake "$bin/rds-info" -c --delta
says "--delta: what a counter grew in a second" '^ +conn_reset +3$'
[ "$(grep -cE '[0-9]$' "$work/out")" = 1 ]; verdict $? "... and no counter that is as it was"
FAKE_RDS_COUNT=3 run fake "$bin/rds-info" -c --delta --json
json "... as JSON, with those that are as they were" '.counters.conn_reset == 3 and .counters["quote\"d"] == 0'
LD_PRELOAD="$bin/fake-rds.so" FAKE_RDS_COUNT=3 timeout 2 "$bin/rds-info" -c --watch=50ms --json >"$work/out" 2>"$work/err"
[ $? = 124 ]; verdict $? "--watch goes on until it is interrupted"
jq -es 'length > 2 and .[0].counters.conn_reset == 7 and .[2].counters.conn_reset == 13' "$work/out" >"$work/jq" 2>&1
verdict $? "... and shows the tables each time"
LD_PRELOAD="$bin/fake-rds.so" FAKE_RDS_OPEN=1 timeout 2 "$bin/rds-info" -k --watch=50ms --json >"$work/out" 2>"$work/err"
jq -es 'length > 2 and .[0].sockets[0].inode != .[1].sockets[0].inode
	and ([.[0,1,2].sockets[0].command] == ["rds-info", "rds-info", "rds-info"])' "$work/out" >"$work/jq" 2>&1
verdict $? "... with the owners of sockets that were opened in between"
exits 2 "an interval of 10ms to a day" "$bin/rds-info" --watch=1ms
exits 2 "an interval of 10ms to a day" "$bin/rds-info" --watch=x
FAKE_RDS_NO_TABLE=10000 exits 1 "no table of counters" fake "$bin/rds-info" -c
FAKE_RDS_NO_TABLE=10000 run fake "$bin/rds-info"
[ $status = 0 ]; verdict $? "a table that was not requested may be missing"

# Whose modules are loaded.
modules=$work/modules
load() { # name version
	mkdir -p "$modules/$1"
	[ -z "$2" ] || echo "$2" >"$modules/$1/version"
}
loaded() {
	FAKE_RDS_MODULES=$modules run fake "$bin/rds-info" --version
}
version=$("$bin/rds-ping" --version | sed 's/.* //')
grep -q "^hawser ($version) " "$(dirname "$0")/../../debian/changelog"; verdict $? "programs have the version of the changelog"
loaded
says "no module is loaded" "^rds-info \(hawser\) $version\$" '^rds: not loaded$'
load rds "hawser-$version"
load rds_tcp "hawser-$version"
loaded
says "hawser's modules are loaded" "^rds: hawser's module $version\$" "^rds_tcp: hawser's module $version\$"
[ "$(wc -l <"$work/out")" = 3 ]; verdict $? "... and those that are not are not mentioned"
load rds hawser-0.0
load kcm ''
load rds_tcp 4.0
loaded
says "another version and the kernel's own modules are recognised" '^rds: .* 0\.0, another version' "^rds_tcp: the kernel's own" \
	"^kcm: the kernel's own"
rm -r "$modules"

# What bash completes, from the options that --help prints.
completed() { # program word
	PATH=$bin:$PATH bash -c '. "$0"; COMP_WORDS=("$1" "$2") COMP_CWORD=1; _hawser "$1"; printf "%s\n" "${COMPREPLY[@]}"' \
		"$(dirname "$0")/../../tools/completion.bash" "$1" "$2" >"$work/out" 2>"$work/err"
}
completed rds-ping --
says "bash completes options" '^--json$' '^--version$' '^--transport$'
completed kcm-server -
says "... of one letter, too" '^-w$' '^-p$' '^--steering$'

# rds-stress
stress "" -T 2 -t 2 -d 2 -v -c
[ $status$passive_status = 00 ]; verdict $? "stress runs"
says "stress prints the usual format" \
	'^tsks   tx/s   rx/s  tx\+rx K/s    mbi K/s    mbo K/s tx us/c   rtt us cpu %$' \
	'^   2( +[0-9.]+){8}$' '  \(average\)$'
mv "$work/passive" "$work/out"
json "the passive side as JSON" '.good and .side == "passive" and .counts.requests_received > 10
	and .counts.requests_received == .peer_counts.requests_sent
	and .counts.acks_received == .counts.requests_sent and .parameters.tasks == 2 and .rtt_us.p50 > 0'
stress "" -T 1 -o --json --show-histogram
json "one way" '.good and .counts.requests_sent > 10 and .counts.requests_received == 0
	and .counts.acks_received == .counts.requests_sent
	and ([.rtt_us.histogram[].count] | add) <= .counts.acks_received'
stress "" -T 1 -z --show-histogram
says "summary only, with the histogram" 'RTT histogram' '^\[ *[0-9]+ - +[0-9]+\]'
[ "$(grep -cE '^   1 ' "$work/out")" = 1 ]; verdict $? "... and one line of numbers"
stress "" -T 1 --show-perfdata
says "perfdata" '^::nr_tasks:count,req_size' '^::1,1024,40,0,[0-9]+,'
stress "FAKE_RDS_CONGEST=50" -T 1 -d 4 --json
json "a sender waits for the end of congestion" '.good and .counts.congested > 0 and .counts.congestion_late == 0'
stress "FAKE_RDS_CONGEST=500" -T 1 -d 4 --use-cong-monitor 0 --json
json "... also without a notification" '.good and .counts.congested > 0'

# Faults that must be reported.
stress "FAKE_RDS_DROP=101" -T 1 -d 4 --json
[ $status$passive_status = 11 ]; verdict $? "loss fails both sides"
json "loss is counted" '(.good | not) and (.counts.lost + .peer_counts.lost) > 0'
stress "FAKE_RDS_DROP=1" -T 1 --json
json "both sides wait equally long for lost messages" '(.good | not) and .peer_counts.lost > 0'
stress "FAKE_RDS_TWICE=101" -T 1 -d 4 --json
json "doubles are counted" '(.good | not) and (.counts.duplicated + .peer_counts.duplicated) > 0'
stress "FAKE_RDS_SWAP=101" -T 1 -d 4 --json
json "disorder is counted" '(.good | not) and (.counts.lost + .peer_counts.lost + .counts.duplicated) > 0'
stress "FAKE_RDS_DAMAGE=101" -T 1 -d 4 -v -a 100 --json
json "damage is counted" '(.good | not) and .peer_counts.corrupted > 0'
grep -q 'damaged from byte' "$work/passive-err"; verdict $? "... and the place is reported"

# The rds-stress of rds-tools at the other side, whose sockets have the same ports.
foreign() { # options of the active side...
	port=$((port + 50))
	fake "$bin/rds-stress" -r 127.0.0.1 -p $port --json >"$work/out" 2>"$work/err" </dev/null &
	local passive=$!
	fake "$bin/rds-tools-stress" -r 127.0.0.2 -s 127.0.0.1 -p $port "$@" >"$work/theirs" 2>&1
	theirs=$?
	wait $passive
	status=$?
}
to_foreign() { # "the active side's FAKE_X=n" its options...
	local faults=$1 drain=10
	shift
	case $faults in *DROP*) drain=1 ;; esac
	port=$((port + 50))
	fake "$bin/rds-tools-stress" -r 127.0.0.1 -p $port >"$work/theirs" 2>&1 </dev/null &
	local passive=$!
	run env LD_PRELOAD="$bin/fake-rds.so" $faults "$bin/rds-stress" -r 127.0.0.2 -s 127.0.0.1 -p $port \
		--connect-retries 20 --drain-time $drain --json "$@"
	wait $passive
	theirs=$?
}
foreign -v -t 2 -d 4 -q 4000
[ $status$theirs = 00 ]; verdict $? "rds-tools' rds-stress as the active side: both succeed"
json "... and all of it arrives" '.good and .side == "passive" and .parameters.tasks == 2 and .counts.requests_received > 10
	and .counts.acks_received > 10 and .counts.corrupted == 0'
foreign -o -Q 3
[ $status$theirs = 00 ]; verdict $? "... one way, and with its version and a type of service"
json "... which are obeyed" '.good and .counts.requests_sent == 0 and .parameters.tos == 3 and .counts.requests_received > 10'
to_foreign "" -T 2 -v -t 2 -d 4 -q 4000
[ $status$theirs = 00 ]; verdict $? "... as the passive side: both succeed"
json "... and all is acknowledged" '.good and .counts.requests_sent > 10 and .counts.acks_received == .counts.requests_sent
	and .counts.requests_received > 10 and .counts.corrupted == 0 and .rtt_us.p50 > 0'
to_foreign "" -T 1 -q 40
json "... its header is the shortest message" '.good and .parameters."req-bytes" == 63 and .parameters."ack-bytes" == 63'
to_foreign "FAKE_RDS_DROP=101" -T 1 -d 4
[ $status$theirs = 11 ]; verdict $? "... which notices that messages are lost, as ours does"
to_foreign "" -T 1 --tos 3
[ $status = 1 ] && grep -q "the rds-stress of rds-tools" "$work/err"
verdict $? "... what it cannot do is refused"

# Other programs on the port.
send_to_passive() { # what the other program sends, with escapes; sets status
	port=$((port + 50))
	fake "$bin/rds-stress" -p $port >"$work/out" 2>"$work/err" </dev/null &
	passive=$!
	for try in {1..100}; do # until it listens
		printf %b "$1" | timeout 5 bash -c "cat >/dev/tcp/127.0.0.1/$port" 2>/dev/null && break
		sleep 0.1
	done
	wait $passive
	status=$?
}
send_to_passive 'GET / HTTP/1.0\r\n\r\n'
[ $status = 1 ] && grep -q "the other side is not hawser's rds-stress" "$work/err"; verdict $? "another program is rejected"
# Both sides print what the other one sent, but nothing that a terminal obeys.
printable() { # name status text: the error has this, and no other bytes
	[ "$2" = 1 ] && grep -qF -- "$3" "$work/err" && ! LC_ALL=C grep -q '[^ -~]' "$work/err"
	verdict $? "$1"
}
send_to_passive 'x\033[2J\377\n'
printable "the passive side of stress prints no control characters" $status "'x?[2J?'"
port=$((port + 50))
python3 -c 'import socket, sys
peer = socket.create_server(("127.0.0.1", int(sys.argv[1]))).accept()[0]
peer.sendall(b"hawser rds-stress 1\nerror \033[2J\377\n")
peer.recv(1)' $port &
run fake "$bin/rds-stress" -s 127.0.0.1 -p $port --connect-retries 20
printable "... nor does the active side" $status "reports: ?[2J?"
wait $!
port=$((port + 50))
exits 1 "Connection refused" fake "$bin/rds-stress" -s 127.0.0.1 -p $port

echo "1..$tests"
echo "# $((tests - failures)) passed, $failures failed"
[ $failures = 0 ]
