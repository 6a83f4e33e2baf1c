#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=120 mem=768
# files: build/static/rds-ping build/static/kcm-server build/static/kcm-client
#
# A kernel with PREEMPT_RT: a lock that may sleep is taken only where the task may. The kernel notices a violation when another
# has the lock; the function tracer sees the context of each one that is taken.

. verdicts

tracing=/sys/kernel/tracing

load_suite hawser rds rds_tcp kcm
mount -t tracefs tracefs $tracing 2>/dev/null
ip link set lo up
[ "$(cat /sys/kernel/realtime)" = 1 ]
verdict $? "the kernel has PREEMPT_RT"

# The control is called with a raw lock held.
control=enqueue_task_fair
echo 16384 >$tracing/buffer_size_kb
echo nop >$tracing/current_tracer
for function in rt_spin_lock rt_read_lock rt_write_lock kapi_spin_lock kapi_spin_lock_irqs $control; do
	echo $function >>$tracing/set_ftrace_filter
done 2>err
verdict $? "the functions that take locks can be traced"
kcm-server >server.out 2>server.err </dev/null &
server=$!
until grep -q listening server.err || ! kill -0 $server; do
	sleep 0.1
done
echo function >$tracing/current_tracer
rds-ping -c 3 -i 100ms 127.0.0.1 >out 2>err && kcm-client -c 2 -k 2 -n 20 127.0.0.1 >>out 2>>err
verdict $? "messages over RDS and KCM meanwhile"
kill -TERM $server
wait $server
echo 0 >$tracing/tracing_on

# "flags function caller": interrupts off is d or D in the first place, a hard interrupt h or H in the third, the depth of
# disabled preemption in the fourth.
sed -nE 's/^.*\[[0-9]+\] ([^ ]{5,6}) +[0-9.]+: ([a-z_]+) <-([^ ]+).*$/\1 \2 \3/p' $tracing/trace >calls
cannot_sleep='^[dD]|^..[hHzZ]|^...[1-9a-f]'
grep " $control " calls | grep -cE "$cannot_sleep" >out
[ "$(cat out)" -gt 10 ]
verdict $? "the tracer shows what is called where no task may sleep"
echo "$(grep -c ' rt_spin_lock ' calls) $(grep -c ' kapi_spin_lock ' calls)" >out
[ "$(grep -c ' kapi_spin_lock ' calls)" -gt 50 ] && [ "$(grep -c ' rt_spin_lock ' calls)" -gt 50 ]
verdict $? "locks are taken: $(cat out)"
grep -v " $control " calls | grep -E "$cannot_sleep" | sort | uniq -c >out
[ ! -s out ]
verdict $? "none of them there"
end_of_verdicts
