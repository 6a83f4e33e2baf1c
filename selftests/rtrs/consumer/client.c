// SPDX-License-Identifier: GPL-2.0
/* The client: sessions over one path, and requests. */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "consumer.h"

#define RECONNECT_SECONDS 1

u8 consumer_text[CONSUMER_TEXT];

static atomic_t link_events;

static void on_link(void *priv, enum rtrs_clt_link_ev ev)
{
	if (priv != consumer_text)
		pr_err("rtrs_test: not ok: link_ev() with another priv\n");
	else if (ev == RTRS_CLT_LINK_EV_RECONNECTED)
		atomic_inc(&link_events);
	else
		atomic_dec(&link_events);
}

int consumer_link(void)
{
	return atomic_read(&link_events);
}

struct rtrs_clt_sess *consumer_open(const char *name)
{
	static const char route[] = "ip:10.77.1.1@ip:10.77.2.1";
	struct rtrs_clt_ops ops = { .priv = consumer_text, .link_ev = on_link };
	struct sockaddr_storage ends[2] = {};
	struct rtrs_addr path = { .src = &ends[0], .dst = &ends[1] };
	struct rtrs_clt_sess *sess;
	int err = rtrs_addr_to_sockaddr(route, sizeof(route) - 1, CONSUMER_PORT, &path);

	if (err)
		return ERR_PTR(err);
	atomic_set(&link_events, 0);
	sess = rtrs_clt_open(&ops, name, &path, 1, CONSUMER_PORT, 0, RECONNECT_SECONDS, -1, 0);
	if (IS_ERR(sess))
		pr_info("rtrs_test: no session \"%s\": %ld\n", name, PTR_ERR(sess));
	return sess;
}

static void on_end(void *priv, int error)
{
	struct consumer_call *call = priv;

	call->ended++;
	call->error = error;
	complete(&call->done);
}

int consumer_send(struct rtrs_clt_sess *sess, struct rtrs_permit *permit, struct consumer_call *call, enum consumer_op op,
		  size_t text, size_t len, struct scatterlist *sg, unsigned int sg_cnt)
{
	u8 first = op;
	struct kvec pieces[2] = { { .iov_base = &first, .iov_len = 1 }, { .iov_base = consumer_text, .iov_len = text } };

	*call = (struct consumer_call){ .ops = { .priv = call, .conf_fn = on_end } };
	init_completion(&call->done);
	return rtrs_clt_request(op == CONSUMER_LOAD ? READ : WRITE, &call->ops, sess, permit, pieces, 2, len, sg, sg_cnt);
}

int consumer_request(struct rtrs_clt_sess *sess, enum rtrs_clt_con_type type, enum consumer_op op, size_t text, size_t len,
		     struct scatterlist *sg, unsigned int sg_cnt)
{
	struct rtrs_permit *permit = rtrs_clt_get_permit(sess, type, RTRS_PERMIT_WAIT);
	struct consumer_call call;
	int err;

	if (!permit)
		return -ECONNABORTED; /* the last path was lost meanwhile */
	err = consumer_send(sess, permit, &call, op, text, len, sg, sg_cnt);
	if (!err) {
		wait_for_completion(&call.done);
		err = call.error;
	}
	rtrs_clt_put_permit(sess, permit);
	return err;
}
