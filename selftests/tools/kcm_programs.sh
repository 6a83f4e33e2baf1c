# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# A part of programs.sh: kcm-server, and kcm-client on a multiplexor, with a KCM that delivers nothing (fake-kcm.c).

start_server() { # "FAKE_X=n"
	port=$((port + 50))
	env LD_PRELOAD="$bin/fake-kcm.so" $1 "$bin/kcm-server" -p $port --json >"$work/server-out" 2>"$work/server-err" \
		</dev/null &
	server=$!
	server_says "listening on port $port"
}
server_says() { # text: once it does, or when it has ended
	until grep -qsF -- "$1" "$work/server-err" || ! kill -0 $server 2>/dev/null; do
		sleep 0.1
	done
}
stop_server() { # name expression-of-jq
	kill $server
	wait $server
	status=$?
	cp "$work/server-out" "$work/out"
	[ $status = 0 ]
	verdict $? "$1"
	json "... and has counted its client" "$2"
}
start_server FAKE_KCM_NO_IPV6=1
: 2>"$work/err" <>/dev/tcp/127.0.0.1/$port
stop_server "kcm-server listens on a host without IPv6" '.connections.accepted == 1'
start_server FAKE_KCM_NO_TABLE=2
server_says "FAKE_KCM_NO_TABLE: call 3"
run env LD_PRELOAD="$bin/fake-kcm.so" FAKE_KCM_NO_TABLE=1 "$bin/kcm-client" -k 1 -c 1 -n 1 --timeout 1 -p $port --json 127.0.0.1
[ $status = 1 ] && grep -q "cannot read the connections of KCM: Cannot allocate memory" "$work/err"
verdict $? "kcm-client cannot read the table of connections"
json "... and reports what it knows" '.counts.requests == 1 and .counts.unanswered == 1 and .connections == []'
stop_server "kcm-server goes on without memory for the table of connections" '.connections.accepted == 1'
start_server FAKE_KCM_NO_ACCEPT=1
: 2>"$work/err" <>/dev/tcp/127.0.0.1/$port
server_says "FAKE_KCM_NO_ACCEPT: call 2"
stop_server "... or for a connection" '.connections.accepted == 1'
