// SPDX-License-Identifier: GPL-2.0
/* Addresses of RDMA connections, and which device has one. */

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/module.h>
#include <net/ipv6.h>
#include <rdma/ib.h>

#include <kapi/linux.h>

#include "verbs.h"

static bool is_v4(const struct kapi_addr *addr)
{
	return ipv6_addr_v4mapped((const struct in6_addr *)addr->ip);
}

bool kapi_rdma_is_any(const struct kapi_addr *addr)
{
	const struct in6_addr *ip = (const struct in6_addr *)addr->ip;

	return ipv6_addr_any(ip) || (is_v4(addr) && !ip->s6_addr32[3]);
}

bool kapi_rdma_is_loopback(const struct kapi_addr *addr)
{
	return ipv6_addr_loopback((const struct in6_addr *)addr->ip) || (is_v4(addr) && addr->ip[12] == 127);
}

static void gid_name(const struct kapi_addr *addr, struct sockaddr_storage *name)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)name;

	ib->sib_family = AF_IB;
	ib->sib_pkey = htons(0xffff);
	memcpy(ib->sib_addr.sib_raw, addr->ip, sizeof(addr->ip));
	ib->sib_sid = cpu_to_be64(RDMA_IB_IP_PS_IB | addr->port);
	ib->sib_sid_mask = cpu_to_be64(~0ULL);
}

void kapi_rdma_sockaddr_of(enum kapi_cm_space space, const struct kapi_addr *addr, struct sockaddr_storage *name)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)name;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)name;

	memset(name, 0, sizeof(*name));
	if (space == KAPI_CM_GID) {
		gid_name(addr, name);
	} else if (is_v4(addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(addr->port);
		memcpy(&v4->sin_addr, addr->ip + 12, sizeof(v4->sin_addr));
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(addr->port);
		v6->sin6_scope_id = addr->scope;
		memcpy(&v6->sin6_addr, addr->ip, sizeof(addr->ip));
	}
}

void kapi_rdma_addr_of(const struct sockaddr_storage *name, struct kapi_addr *addr)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)name;
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)name;

	memset(addr, 0, sizeof(*addr));
	switch (name->ss_family) {
	case AF_INET:
		ipv6_addr_set_v4mapped(v4->sin_addr.s_addr, (struct in6_addr *)addr->ip);
		addr->port = ntohs(v4->sin_port);
		break;
	case AF_INET6:
		memcpy(addr->ip, &v6->sin6_addr, sizeof(addr->ip));
		addr->port = ntohs(v6->sin6_port);
		addr->scope = v6->sin6_scope_id;
		break;
	case AF_IB:
		memcpy(addr->ip, ib->sib_addr.sib_raw, sizeof(addr->ip));
		addr->port = be64_to_cpu(ib->sib_sid);
		break;
	}
}

/*
 * The connection manager takes a reference to the namespace as if there were one. A path's work may come here when the last one
 * is gone, and the namespace's end waits for that work.
 */
struct rdma_cm_id *kapi_rdma_create_id(struct kapi_net *kapi_net, enum kapi_cm_space space, rdma_cm_event_handler handler,
				       void *context)
{
	struct net *net = maybe_get_net(kapi_net_to_net(kapi_net));
	struct rdma_cm_id *id;

	if (!net)
		return ERR_PTR(-ENETUNREACH);
	id = rdma_create_id(net, handler, context, space == KAPI_CM_GID ? RDMA_PS_IB : RDMA_PS_TCP, IB_QPT_RC);
	put_net(net);
	return id;
}

static int no_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

int kapi_rdma_dev_of(struct kapi_net *net, const struct kapi_addr *addr, struct kapi_rdma_dev **result)
{
	struct kapi_addr wanted = *addr;
	struct sockaddr_storage name;
	struct kapi_rdma_dev *dev;
	struct rdma_cm_id *id;
	int error;

	might_sleep();
	if (kapi_rdma_is_any(addr))
		return -EADDRNOTAVAIL;
	wanted.port = 0;
	kapi_rdma_sockaddr_of(KAPI_CM_IP, &wanted, &name);
	id = kapi_rdma_create_id(net, KAPI_CM_IP, no_event, NULL);
	if (IS_ERR(id))
		return PTR_ERR(id);
	error = rdma_bind_addr(id, (struct sockaddr *)&name);
	if (!error) {
		dev = kapi_rdma_dev_get(id->device);
		*result = dev;
		error = dev ? 0 : -ENODEV;
		kapi_rdma_dev_put(dev);
	}
	rdma_destroy_id(id);
	return error == -EINVAL ? -EADDRNOTAVAIL : error;
}
EXPORT_SYMBOL_GPL(kapi_rdma_dev_of);
