#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=60
# files: build/static/kcm-server build/static/kcm-client
#
# Tracepoints of KCM, as an administrator uses them.

. verdicts

tracing=/sys/kernel/tracing

has() { # name pattern
	grep -qE -- "$2" out
	verdict $? "$1"
}

load_suite kcm
mount -t tracefs tracefs $tracing 2>/dev/null
ls $tracing/events/kcm >out 2>err
[ "$(grep -c '^kcm_' out)" = 7 ]
verdict $? "there are the events of the documentation: $(grep '^kcm_' out | tr '\n' ' ')"

kcm-server >server.out 2>server.err </dev/null &
server=$!
until grep -q listening server.err || ! kill -0 $server; do
	sleep 0.1
done
echo 1 >$tracing/events/kcm/enable
kcm-client -c 2 -n 5 --max-size 100 127.0.0.1 >client.out 2>err
verdict $? "a client's requests are answered"
echo 0 >$tracing/events/kcm/enable
kill -TERM $server
wait $server
cp $tracing/trace out
has "a connection is attached" "kcm_attach: connection=[1-9][0-9]* error=0"
has "its requests arrive" "kcm_receive: connection=[1-9][0-9]* messages=[1-5] length=[0-9]+"
has "the server has them" "kcm_deliver: connection=[1-9][0-9]* messages=1 length=[0-9]+"
has "it answers" "kcm_send: connection=[0-9]+ messages=1 length=[0-9]+"
has "TCP has the answer" "kcm_transmit: connection=[1-9][0-9]* messages=1 length=[0-9]+"
has "the connection ends" "kcm_end: connection=[1-9][0-9]* error=[1-9]"
end_of_verdicts
