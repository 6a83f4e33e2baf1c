// SPDX-License-Identifier: GPL-2.0
/* rtrs-core.ko: addresses of paths as text, for users of RTRS. The rest of upstream's module is private to RTRS. */

#include <linux/inet.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib.h>
#include <rdma/rdma_cm.h>

#include <rtrs.h>

static int parse_gid(const char *text, u16 port, struct sockaddr_storage *to)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)to;

	if (!in6_pton(text, -1, ib->sib_addr.sib_raw, -1, NULL))
		return -EINVAL;
	ib->sib_family = AF_IB;
	ib->sib_sid = cpu_to_be64(RDMA_IB_IP_PS_IB | port);
	ib->sib_sid_mask = cpu_to_be64(U64_MAX);
	ib->sib_pkey = cpu_to_be16(0xffff);
	return 0;
}

static int parse_ip(const char *text, u16 port, struct sockaddr_storage *to)
{
	char digits[sizeof("65535")];

	snprintf(digits, sizeof(digits), "%u", port);
	return inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, text, digits, to);
}

static int parse(const char *str, size_t len, u16 port, struct sockaddr_storage *to)
{
	char *text = kstrndup(str, len, GFP_KERNEL);
	int err = -EPROTONOSUPPORT;

	if (!text)
		return -ENOMEM;
	if (!strncmp(text, "gid:", 4))
		err = parse_gid(text + 4, port, to);
	else if (!strncmp(text, "ip:", 3))
		err = parse_ip(text + 3, port, to);
	kfree(text);
	return err;
}

int rtrs_addr_to_sockaddr(const char *str, size_t len, u16 port, struct rtrs_addr *addr)
{
	const char *end = str + strnlen(str, len);
	const char *separator = memchr(str, ',', end - str);
	int err;

	if (!separator)
		separator = memchr(str, '@', end - str);
	if (!separator) {
		addr->src = NULL;
		return parse(str, end - str, port, addr->dst);
	}
	err = parse(str, separator - str, 0, addr->src);
	if (err)
		return err == -ENOMEM ? err : -EINVAL;
	return parse(separator + 1, end - separator - 1, port, addr->dst);
}
EXPORT_SYMBOL(rtrs_addr_to_sockaddr);

int sockaddr_to_str(const struct sockaddr *addr, char *buf, size_t len)
{
	switch (addr->sa_family) {
	case AF_IB:
		return scnprintf(buf, len, "gid:%pI6", ((const struct sockaddr_ib *)addr)->sib_addr.sib_raw);
	case AF_INET:
		return scnprintf(buf, len, "ip:%pI4", &((const struct sockaddr_in *)addr)->sin_addr);
	case AF_INET6:
		return scnprintf(buf, len, "ip:%pI6c", &((const struct sockaddr_in6 *)addr)->sin6_addr);
	default:
		return scnprintf(buf, len, "family:%u", addr->sa_family);
	}
}
EXPORT_SYMBOL(sockaddr_to_str);

int rtrs_addr_to_str(const struct rtrs_addr *addr, char *buf, size_t len)
{
	int used = sockaddr_to_str((const struct sockaddr *)addr->src, buf, len);

	used += scnprintf(buf + used, len - used, "@");
	return used + sockaddr_to_str((const struct sockaddr *)addr->dst, buf + used, len - used);
}
EXPORT_SYMBOL(rtrs_addr_to_str);

MODULE_DESCRIPTION("RTRS: addresses of paths");
MODULE_AUTHOR("The hawser project");
MODULE_LICENSE("GPL");
MODULE_VERSION(HAWSER_VERSION);
