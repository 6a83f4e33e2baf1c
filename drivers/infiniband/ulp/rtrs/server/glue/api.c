// SPDX-License-Identifier: GPL-2.0
/* What rtrs-server.ko exports to its users (rtrs.h), in terms of core. */
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include <kapi/linux.h>

#include <rtrs.h>

#include "rtrs_srv_core.h"

struct rtrs_srv_ctx {
	struct rtrs_srv_ops ops;
	struct rtrs_srv_core *core;
};

static_assert((int)RTRS_SRV_LINK_EV_CONNECTED == (int)RTRS_SRV_CORE_CONNECTED);
static_assert((int)RTRS_SRV_LINK_EV_DISCONNECTED == (int)RTRS_SRV_CORE_DISCONNECTED);

static int rtrs_srv_glue_rdma_ev(void *user, void *priv, struct rtrs_srv_op *op, void *data, size_t data_len, const void *usr,
				 size_t usr_len)
{
	struct rtrs_srv_ctx *ctx = user;

	return ctx->ops.rdma_ev(priv, op, data, data_len, usr, usr_len);
}

static int rtrs_srv_glue_link_ev(void *user, struct rtrs_srv_sess *sess, enum rtrs_srv_core_event event, void *priv)
{
	struct rtrs_srv_ctx *ctx = user;

	return ctx->ops.link_ev(sess, (enum rtrs_srv_link_ev)event, priv);
}

static const struct rtrs_srv_core_ops rtrs_srv_glue_ops = {
	.rdma_ev = rtrs_srv_glue_rdma_ev,
	.link_ev = rtrs_srv_glue_link_ev,
};

/* The server is of the network namespace of the task that opens it. */
struct rtrs_srv_ctx *rtrs_srv_open(struct rtrs_srv_ops *ops, u16 port)
{
	struct rtrs_srv_ctx *ctx;
	int err;

	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL);
	if (!ctx)
		return ERR_PTR(-ENOMEM);
	ctx->ops = *ops;
	err = rtrs_srv_core_open(kapi_net_of(current->nsproxy->net_ns), &rtrs_srv_glue_ops, ctx, port, &ctx->core);
	if (err) {
		kfree(ctx);
		return ERR_PTR(err);
	}
	return ctx;
}
EXPORT_SYMBOL(rtrs_srv_open);

void rtrs_srv_close(struct rtrs_srv_ctx *ctx)
{
	rtrs_srv_core_close(ctx->core);
	kfree(ctx);
}
EXPORT_SYMBOL(rtrs_srv_close);

/* Users call again later what returned false: ours keeps the answer until there is room for it. */
bool rtrs_srv_resp_rdma(struct rtrs_srv_op *op, int status)
{
	rtrs_srv_core_resp(op, status);
	return true;
}
EXPORT_SYMBOL(rtrs_srv_resp_rdma);

void rtrs_srv_set_sess_priv(struct rtrs_srv_sess *sess, void *priv)
{
	rtrs_srv_core_set_priv(sess, priv);
}
EXPORT_SYMBOL(rtrs_srv_set_sess_priv);

int rtrs_srv_get_path_name(struct rtrs_srv_sess *sess, char *pathname, size_t len)
{
	return rtrs_srv_core_path_name(sess, pathname, len);
}
EXPORT_SYMBOL(rtrs_srv_get_path_name);

int rtrs_srv_get_queue_depth(struct rtrs_srv_sess *sess)
{
	return rtrs_srv_core_queue_depth(sess);
}
EXPORT_SYMBOL(rtrs_srv_get_queue_depth);
