// SPDX-License-Identifier: GPL-2.0
/* Time, chance, the log, modules, namespaces. */

#include <linux/cred.h>
#include <linux/inetdevice.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/printk.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/user_namespace.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/route.h>

#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/share.h>

kapi_u64 kapi_now_ns(void)
{
	return ktime_get_ns();
}
EXPORT_SYMBOL_GPL(kapi_now_ns);

kapi_u64 kapi_real_ns(void)
{
	return ktime_get_real_ns();
}
EXPORT_SYMBOL_GPL(kapi_real_ns);

kapi_u64 kapi_local_clock_ns(void)
{
	return local_clock();
}
EXPORT_SYMBOL_GPL(kapi_local_clock_ns);

kapi_u32 kapi_cpu(void)
{
	return raw_smp_processor_id();
}
EXPORT_SYMBOL_GPL(kapi_cpu);

kapi_u32 kapi_cpus(void)
{
	return nr_cpu_ids;
}
EXPORT_SYMBOL_GPL(kapi_cpus);

kapi_u32 kapi_random_u32(void)
{
	return get_random_u32();
}
EXPORT_SYMBOL_GPL(kapi_random_u32);

/* The kernel reads a level from the format itself, so that each has its own call. */
static void log_line(enum kapi_log_level level, struct va_format *line)
{
	switch (level) {
	case KAPI_LOG_ERR:
		pr_err("%pV\n", line);
		break;
	case KAPI_LOG_WARN:
		pr_warn("%pV\n", line);
		break;
	case KAPI_LOG_NOTICE:
		pr_notice("%pV\n", line);
		break;
	case KAPI_LOG_INFO:
		pr_info("%pV\n", line);
		break;
	case KAPI_LOG_DEBUG:
		pr_debug("%pV\n", line);
		break;
	}
}

void kapi_log(enum kapi_log_level level, const char *format, ...)
{
	static DEFINE_RATELIMIT_STATE(limit, DEFAULT_RATELIMIT_INTERVAL, 2 * DEFAULT_RATELIMIT_BURST);
	struct va_format line = { .fmt = format };
	va_list arguments;

	/* Debug lines are off unless the administrator enables them, and then none is omitted. */
	if (level != KAPI_LOG_DEBUG && !__ratelimit(&limit))
		return;
	va_start(arguments, format);
	line.va = &arguments;
	log_line(level, &line);
	va_end(arguments);
}
EXPORT_SYMBOL_GPL(kapi_log);

void kapi_bug(const char *expression, const char *file, int line)
{
	WARN(1, "hawser: %s does not hold, %s:%d\n", expression, file, line);
}
EXPORT_SYMBOL_GPL(kapi_bug);

void kapi_resched(void)
{
	might_sleep();
	cond_resched();
}
EXPORT_SYMBOL_GPL(kapi_resched);

static kapi_u32 answers_in(const struct user_namespace *ns, kuid_t user)
{
	kapi_u32 answers = __kuid_val(user);

	for (; ns != &init_user_ns; ns = ns->parent)
		answers = kapi_answers_for(answers, __kuid_val(ns->owner));
	return answers;
}

kapi_u64 kapi_user(void)
{
	return answers_in(current_user_ns(), current_uid());
}
EXPORT_SYMBOL_GPL(kapi_user);

int kapi_in_program(void)
{
	might_sleep();
	return !(current->flags & PF_KTHREAD);
}
EXPORT_SYMBOL_GPL(kapi_in_program);

int kapi_module_get(struct kapi_module *module)
{
	return try_module_get(kapi_module_to_module(module));
}
EXPORT_SYMBOL_GPL(kapi_module_get);

void kapi_module_put(struct kapi_module *module)
{
	module_put(kapi_module_to_module(module));
}
EXPORT_SYMBOL_GPL(kapi_module_put);

void **kapi_module_slot(enum kapi_slot slot)
{
	static void *slots[KAPI_SLOTS];

	return &slots[slot];
}
EXPORT_SYMBOL_GPL(kapi_module_slot);

static bool is_local(struct net *net, struct net_device *dev, const struct in6_addr *ip)
{
	if (ipv6_addr_v4mapped(ip)) {
		__be32 v4 = ip->s6_addr32[3];

		return (dev ? inet_dev_addr_type(net, dev, v4) : inet_addr_type(net, v4)) == RTN_LOCAL;
	}
#if IS_ENABLED(CONFIG_IPV6)
	/* With ipv6.disable=1 the tables that this call reads were never made. */
	return ipv6_mod_enabled() && ipv6_chk_addr(net, ip, dev, 0);
#else
	return false;
#endif
}

int kapi_net_is_local(struct kapi_net *kapi_net, const struct kapi_addr *addr)
{
	struct net *net = kapi_net_to_net(kapi_net);
	struct net_device *dev = NULL;
	struct in6_addr ip;
	bool found = false;

	memcpy(&ip, addr->ip, sizeof(ip));
	rcu_read_lock();
	if (addr->scope)
		dev = dev_get_by_index_rcu(net, addr->scope);
	if (dev || !addr->scope)
		found = is_local(net, dev, &ip);
	rcu_read_unlock();
	return found;
}
EXPORT_SYMBOL_GPL(kapi_net_is_local);

kapi_u32 kapi_net_addr_generation(struct kapi_net *kapi_net)
{
	struct net *net = kapi_net_to_net(kapi_net);
	/* An address may be local by a route alone. */
	u32 generation = atomic_read(&net->ipv4.dev_addr_genid) + READ_ONCE(net->dev_base_seq) + rt_genid_ipv4(net);

#if IS_ENABLED(CONFIG_IPV6)
	generation += atomic_read(&net->ipv6.dev_addr_genid);
#endif
	return generation;
}
EXPORT_SYMBOL_GPL(kapi_net_addr_generation);

void kapi_net_port_range(struct kapi_net *net, kapi_u16 *low, kapi_u16 *high)
{
	int first, last;

	inet_get_local_port_range(kapi_net_to_net(net), &first, &last);
	*low = first;
	*high = last;
}
EXPORT_SYMBOL_GPL(kapi_net_port_range);

int kapi_net_port_is_reserved(struct kapi_net *net, kapi_u16 port)
{
	return inet_is_local_reserved_port(kapi_net_to_net(net), port);
}
EXPORT_SYMBOL_GPL(kapi_net_port_is_reserved);

int kapi_net_is_initial(struct kapi_net *net)
{
	return net_eq(kapi_net_to_net(net), &init_net);
}
EXPORT_SYMBOL_GPL(kapi_net_is_initial);

void kapi_net_get(struct kapi_net *net)
{
	get_net(kapi_net_to_net(net));
}
EXPORT_SYMBOL_GPL(kapi_net_get);

void kapi_net_put(struct kapi_net *net)
{
	put_net(kapi_net_to_net(net));
}
EXPORT_SYMBOL_GPL(kapi_net_put);

kapi_u32 kapi_net_owner(struct kapi_net *net)
{
	struct user_namespace *ns = kapi_net_to_net(net)->user_ns;
	kuid_t root = make_kuid(ns, 0);

	/* Nobody is user 0 in it as long as it has no such mapping. */
	return answers_in(ns, uid_valid(root) ? root : ns->owner);
}
EXPORT_SYMBOL_GPL(kapi_net_owner);
