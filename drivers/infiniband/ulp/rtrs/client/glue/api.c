// SPDX-License-Identifier: GPL-2.0
/* What rtrs-client.ko exports (include/rtrs.h): the kernel's types are translated to those of core. */
#include <linux/err.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <net/ipv6.h>
#include <rdma/ib.h>

#include <kapi/linux.h>

#include <rtrs.h>

#include "rtrs_clt_core.h"

struct rtrs_clt_sess {
	struct rtrs_clt_session *core;
	struct rtrs_clt_ops ops;
	struct net *net; /* of the one who opened it */
};

/* The addresses of one path; NULL: any address of the family of @like. */
static int rtrs_clt_address(const struct sockaddr_storage *from, sa_family_t family, enum kapi_cm_space *space,
			    struct kapi_addr *to)
{
	memset(to, 0, sizeof(*to));
	*space = family == AF_IB ? KAPI_CM_GID : KAPI_CM_IP;
	if (from && from->ss_family != family)
		return -EINVAL;
	switch (family) {
	case AF_INET:
		ipv6_addr_set_v4mapped(from ? ((const struct sockaddr_in *)from)->sin_addr.s_addr : 0, (struct in6_addr *)to->ip);
		return 0;
	case AF_INET6:
		if (from) {
			memcpy(to->ip, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(to->ip));
			to->scope = ((const struct sockaddr_in6 *)from)->sin6_scope_id;
		}
		return 0;
	case AF_IB:
		if (from)
			memcpy(to->ip, ((const struct sockaddr_ib *)from)->sib_addr.sib_raw, sizeof(to->ip));
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

static struct rtrs_clt_route *rtrs_clt_routes(const struct rtrs_addr *paths, size_t count)
{
	struct rtrs_clt_route *routes = kcalloc(count, sizeof(*routes), GFP_KERNEL);
	size_t i;

	if (!routes)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < count; i++) {
		sa_family_t family = paths[i].dst->ss_family;
		int err = rtrs_clt_address(paths[i].src, family, &routes[i].space, &routes[i].local);

		if (!err)
			err = rtrs_clt_address(paths[i].dst, family, &routes[i].space, &routes[i].remote);
		if (err) {
			kfree(routes);
			return ERR_PTR(err);
		}
	}
	return routes;
}

static void rtrs_clt_link(void *priv, int up)
{
	struct rtrs_clt_sess *sess = priv;

	sess->ops.link_ev(sess->ops.priv, up ? RTRS_CLT_LINK_EV_RECONNECTED : RTRS_CLT_LINK_EV_DISCONNECTED);
}

/*
 * pdu_sz is of no effect: the call that would find such memory beside a permit is not part of the header. Nor is nr_poll_queues:
 * nothing in the interface says which requests are polled for, so that, as with the kernel's own, all complete by interrupts.
 */
struct rtrs_clt_sess *rtrs_clt_open(struct rtrs_clt_ops *ops, const char *pathname, const struct rtrs_addr *paths,
				    size_t path_cnt,
				    u16 port, size_t pdu_sz, u8 reconnect_delay_sec, s16 max_reconnect_attempts,
				    u32 nr_poll_queues)
{
	struct rtrs_clt_sess *sess = kzalloc(sizeof(*sess), GFP_KERNEL);
	struct rtrs_clt_open_args args = {
		.name = pathname,
		.priv = sess,
		.link = rtrs_clt_link,
		.count = path_cnt,
		.port = port,
		.reconnect_ms = reconnect_delay_sec * MSEC_PER_SEC,
		.max_reconnects = max_reconnect_attempts,
	};
	struct rtrs_clt_route *routes;
	int err;

	if (!sess)
		return ERR_PTR(-ENOMEM);
	routes = rtrs_clt_routes(paths, path_cnt);
	if (IS_ERR(routes)) {
		kfree(sess);
		return ERR_CAST(routes);
	}
	sess->ops = *ops;
	sess->net = get_net(current->nsproxy->net_ns);
	args.net = kapi_net_of(sess->net);
	args.routes = routes;
	err = rtrs_clt_core_open(&args, &sess->core);
	kfree(routes);
	if (err) {
		put_net(sess->net);
		kfree(sess);
		return ERR_PTR(err);
	}
	return sess;
}
EXPORT_SYMBOL(rtrs_clt_open);

void rtrs_clt_close(struct rtrs_clt_sess *sess)
{
	rtrs_clt_core_close(sess->core);
	put_net(sess->net);
	kfree(sess);
}
EXPORT_SYMBOL(rtrs_clt_close);

struct rtrs_permit *rtrs_clt_get_permit(struct rtrs_clt_sess *sess, enum rtrs_clt_con_type con_type, enum wait_type wait)
{
	return (struct rtrs_permit *)rtrs_clt_core_get_permit(sess->core, con_type == RTRS_ADMIN_CON, wait == RTRS_PERMIT_WAIT);
}
EXPORT_SYMBOL(rtrs_clt_get_permit);

void rtrs_clt_put_permit(struct rtrs_clt_sess *sess, struct rtrs_permit *permit)
{
	if (!WARN_ON(!permit))
		rtrs_clt_core_put_permit(sess->core, (struct rtrs_clt_chunk *)permit);
}
EXPORT_SYMBOL(rtrs_clt_put_permit);

int rtrs_clt_request(int dir, struct rtrs_clt_req_ops *ops, struct rtrs_clt_sess *sess, struct rtrs_permit *permit,
		     const struct kvec *vec, size_t nr, size_t len, struct scatterlist *sg, unsigned int sg_cnt)
{
	struct rtrs_clt_chunk *chunk = (struct rtrs_clt_chunk *)permit;
	struct rtrs_clt_request_args args = {
		.read = dir == READ,
		.priv = ops->priv,
		.done = ops->conf_fn,
		.data_bytes = len,
		.list = (struct kapi_sglist *)sg,
		.count = sg_cnt,
	};
	u32 room;
	char *message = rtrs_clt_core_message(sess->core, chunk, &room);
	size_t i;

	for (i = 0; i < nr; i++) {
		if (vec[i].iov_len > room - args.message_bytes)
			return -EMSGSIZE;
		memcpy(message + args.message_bytes, vec[i].iov_base, vec[i].iov_len);
		args.message_bytes += vec[i].iov_len;
	}
	return rtrs_clt_core_request(sess->core, chunk, &args);
}
EXPORT_SYMBOL(rtrs_clt_request);

int rtrs_clt_rdma_cq_direct(struct rtrs_clt_sess *sess, unsigned int index)
{
	return 0; /* see rtrs_clt_open() */
}
EXPORT_SYMBOL(rtrs_clt_rdma_cq_direct);

int rtrs_clt_query(struct rtrs_clt_sess *sess, struct rtrs_attrs *attr)
{
	struct rtrs_clt_limits limits;

	if (!rtrs_clt_core_query(sess->core, &limits))
		return -ECOMM;
	attr->queue_depth = limits.queue_depth;
	attr->max_io_size = limits.max_io_bytes;
	attr->max_segments = limits.max_segments;
	return 0;
}
EXPORT_SYMBOL(rtrs_clt_query);
