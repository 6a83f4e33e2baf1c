// SPDX-License-Identifier: GPL-2.0
/*
 * Programs (BPF) that look at bytes.
 *
 * A program reads a packet. Each CPU has one for it, into which the bytes are copied: few bytes as a rule, and a
 * buffer of the network's would have to be changed to begin where the message does.
 */

#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/skbuff.h>

#include <kapi/filter.h>
#include <kapi/linux.h>
#include <kapi/stream.h>

#include "filter.h"

static DEFINE_PER_CPU(struct sk_buff *, filter_packet);

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
		per_cpu(filter_packet, cpu) = packet;
	}
	return 0;
}

void kapi_filters_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		kfree_skb(per_cpu(filter_packet, cpu));
		per_cpu(filter_packet, cpu) = NULL;
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
	rcu_read_lock();
	return this_cpu_read(filter_packet);
}

static s32 run_on(const struct kapi_filter *filter, struct sk_buff *packet)
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
	skb_reset_mac_header(packet);
	skb_reset_network_header(packet);
}

static void end_packet(struct sk_buff *packet)
{
	show(packet, 0, 0);
	rcu_read_unlock();
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

void kapi_filter_begin(struct kapi_filter_view *view, struct kapi_rx *rx, kapi_size offset, kapi_size size)
{
	struct sk_buff *packet = begin_packet();

	if (WARN_ON_ONCE(size > KAPI_FILTER_VIEW))
		size = KAPI_FILTER_VIEW;
	kapi_rx_copy(rx, offset, packet->head, size);
	*view = (struct kapi_filter_view){ packet, offset, size };
}
EXPORT_SYMBOL_GPL(kapi_filter_begin);

kapi_s32 kapi_filter_run_view(const struct kapi_filter *filter, const struct kapi_filter_view *view, kapi_size offset,
			      kapi_size size)
{
	size_t at = offset - view->offset;

	if (WARN_ON_ONCE(at > view->size || size > view->size - at))
		return -EINVAL;
	show(view->packet, at, size);
	return run_on(filter, view->packet);
}
EXPORT_SYMBOL_GPL(kapi_filter_run_view);

void kapi_filter_end(struct kapi_filter_view *view)
{
	end_packet(view->packet);
}
EXPORT_SYMBOL_GPL(kapi_filter_end);
