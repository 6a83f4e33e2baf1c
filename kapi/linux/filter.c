// SPDX-License-Identifier: GPL-2.0
/*
 * Programs (BPF) that look at bytes.
 *
 * A program reads a packet. Each CPU has one for it, into which the bytes are copied: few bytes as a rule, and a
 * buffer of the network's would have to be changed to begin where the message does.
 */

#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/interrupt.h>
#include <linux/local_lock.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/skbuff.h>

#include <kapi/filter.h>
#include <kapi/linux.h>
#include <kapi/stream.h>

#include "filter.h"
#include "rxbuf.h"

struct packet_of_cpu {
	local_lock_t lock;
	struct sk_buff *packet;
};

static DEFINE_PER_CPU(struct packet_of_cpu, filter_packet) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* With PREEMPT_RT bottom halves that are off keep no other task from this processor's data, from 6.18 on. */
#ifdef local_lock_nested_bh
#define lock_packet() local_lock_nested_bh(&filter_packet.lock)
#define unlock_packet() local_unlock_nested_bh(&filter_packet.lock)
#else
#define lock_packet() do { } while (0)
#define unlock_packet() do { } while (0)
#endif

static struct bpf_prog *prog_of(const struct kapi_filter *filter)
{
	return (struct bpf_prog *)filter;
}

int kapi_filters_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct sk_buff *packet = alloc_skb(KAPI_FILTER_VIEW, GFP_KERNEL);

		if (!packet) {
			kapi_filters_exit();
			return -ENOMEM;
		}
		skb_reset_mac_header(packet);
		skb_reset_network_header(packet);
		per_cpu(filter_packet, cpu).packet = packet;
	}
	return 0;
}

void kapi_filters_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		kfree_skb(per_cpu(filter_packet, cpu).packet);
		per_cpu(filter_packet, cpu).packet = NULL;
	}
}

int kapi_filter_get(int fd, struct kapi_filter **filter)
{
	struct bpf_prog *prog;

	might_sleep();
	prog = bpf_prog_get_type(fd, BPF_PROG_TYPE_SOCKET_FILTER);
	if (IS_ERR(prog))
		return PTR_ERR(prog);
	*filter = (struct kapi_filter *)prog;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_filter_get);

void kapi_filter_put(struct kapi_filter *filter)
{
	if (filter)
		bpf_prog_put(prog_of(filter));
}
EXPORT_SYMBOL_GPL(kapi_filter_put);

/*
 * This CPU's packet, which no other context gets until end_packet(). Without bottom halves the task stays on this CPU, as a
 * program needs; its maps are under RCU.
 */
static struct sk_buff *begin_packet(void)
{
	local_bh_disable();
	lock_packet();
	rcu_read_lock();
	return this_cpu_read(filter_packet.packet);
}

static __always_inline s32 run_on(const struct kapi_filter *filter, struct sk_buff *packet)
{
	const struct bpf_prog *prog = prog_of(filter);

	/* The program may keep something there, but not from one run to the next. */
	if (unlikely(prog->cb_access))
		memset(bpf_skb_cb(packet), 0, BPF_SKB_CB_LEN);
	return bpf_prog_run(prog, packet);
}

/* The program is to see these bytes of the packet's memory. */
static void show(struct sk_buff *packet, size_t at, size_t size)
{
	packet->data = packet->head + at;
	packet->len = size;
	skb_set_tail_pointer(packet, size);
	packet->mac_header = at;
	packet->network_header = at;
}

static void end_packet(struct sk_buff *packet)
{
	show(packet, 0, 0);
	rcu_read_unlock();
	unlock_packet();
	local_bh_enable();
}

kapi_s32 kapi_filter_run(const struct kapi_filter *filter, const void *bytes, kapi_size size)
{
	struct sk_buff *packet;
	s32 result;

	if (WARN_ON_ONCE(size > KAPI_FILTER_VIEW))
		return -EINVAL;
	packet = begin_packet();
	skb_put_data(packet, bytes, size);
	result = run_on(filter, packet);
	end_packet(packet);
	return result;
}
EXPORT_SYMBOL_GPL(kapi_filter_run);

kapi_s32 kapi_filter_run_rx(const struct kapi_filter *filter, struct kapi_rx *rx, kapi_size offset, kapi_size size)
{
	struct sk_buff *packet;
	s32 result;

	if (WARN_ON_ONCE(size > KAPI_FILTER_VIEW))
		return -EINVAL;
	packet = begin_packet();
	kapi_rx_copy(rx, offset, skb_put(packet, size), size);
	result = run_on(filter, packet);
	end_packet(packet);
	return result;
}
EXPORT_SYMBOL_GPL(kapi_filter_run_rx);

/* Behind a message of at most so many bytes there are probably others, which are copied together. */
#define SMALL 256
/* After so many runs of the program it is looked at the clock, and at whether a task is wanted away from this processor. */
#define RUNS_AT_ONCE 8

/* How much of what is offered is copied when the next message is not among what was copied last. */
static size_t ahead_of(u32 length, u32 messages)
{
	if (length > SMALL)
		return KAPI_FILTER_FIRST_VIEW;
	return min_t(size_t, length * messages + KAPI_FILTER_FIRST_VIEW, KAPI_FILTER_VIEW);
}

/* A run takes as long as a user likes, and bottom halves are off: those that wait run now. In one of them none would run. */
static bool others_wait(struct kapi_rx *rx, u32 runs)
{
	if (runs % RUNS_AT_ONCE == 0 && (kapi_rx_turn_is_over(rx) || (!in_serving_softirq() && need_resched())))
		return true;
	return !in_serving_softirq() && local_softirq_pending();
}

/* What is offered, from the place on where the search for its bytes was last. */
struct offered {
	struct kapi_rx *rx;
	const u8 *piece; /* the bytes from here */
	size_t from, to; /* to there */
};

static void copy_offered(struct offered *o, size_t at, void *to, size_t size)
{
	if (at + size > o->to) {
		size_t length = 0;

		o->piece = kapi_rx_piece(o->rx, at, &length);
		o->from = at;
		o->to = at + length;
	}
	if (unlikely(at + size > o->to))
		kapi_rx_copy(o->rx, at, to, size);
	else if (size == KAPI_FILTER_FIRST_VIEW)
		memcpy(to, o->piece + (at - o->from), KAPI_FILTER_FIRST_VIEW);
	else
		memcpy(to, o->piece + (at - o->from), size);
}

kapi_size kapi_filter_find(const struct kapi_filter *filter, struct kapi_rx *rx, kapi_size offset, kapi_size end,
			   struct kapi_filter_found *found)
{
	size_t at = offset, copied_from = offset, copied_to = offset;
	u32 count = found->count, most = found->most, longest = found->longest, runs = 0;
	struct offered offered = { .rx = rx };
	struct sk_buff *packet = begin_packet();
	u32 last = UINT_MAX;

	while (count < most && at < end) {
		size_t shown = min_t(size_t, end - at, KAPI_FILTER_FIRST_VIEW);
		s32 said;

		if (at + shown > copied_to) {
			copied_from = at;
			copied_to = at + clamp(ahead_of(last, most - count), shown, end - at);
			copy_offered(&offered, at, packet->head, copied_to - at);
		}
		show(packet, at - copied_from, shown);
		said = run_on(filter, packet);
		runs++;
		if (said <= 0 || said > longest || said > end - at) {
			found->said = said;
			found->stopped = 1;
			break;
		}
		last = found->lengths[count++] = said;
		at += said;
		if (others_wait(rx, runs))
			break;
	}
	end_packet(packet);
	found->count = count;
	return at;
}
EXPORT_SYMBOL_GPL(kapi_filter_find);
