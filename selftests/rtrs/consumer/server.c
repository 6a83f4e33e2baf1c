// SPDX-License-Identifier: GPL-2.0
/* The server: it keeps the data of one request. */
#include <linux/err.h>
#include <linux/irq_work.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "consumer.h"

#define MOST_DATA (1 << 20)
#define MOST_HELD 64

struct consumer_server consumer_server;

static struct rtrs_srv_ctx *context;
static u8 *stored;
static struct rtrs_srv_op *held[MOST_HELD];
static int held_count;
static DEFINE_SPINLOCK(lock);

static bool hold(struct rtrs_srv_op *op)
{
	bool fits;

	spin_lock_irq(&lock);
	fits = held_count < MOST_HELD;
	if (fits)
		held[held_count++] = op;
	spin_unlock_irq(&lock);
	return fits;
}

int consumer_held(void)
{
	return READ_ONCE(held_count);
}

/* In a hard interrupt, where many disks answer, too. */
static void release(struct irq_work *work)
{
	for (;;) {
		struct rtrs_srv_op *op = NULL;
		unsigned long flags;

		spin_lock_irqsave(&lock, flags);
		if (held_count)
			op = held[--held_count];
		spin_unlock_irqrestore(&lock, flags);
		if (!op)
			return;
		rtrs_srv_resp_rdma(op, 0);
	}
}

static struct irq_work releasing = IRQ_WORK_INIT(release);

void consumer_release(void)
{
	irq_work_queue(&releasing);
}

static int on_request(void *priv, struct rtrs_srv_op *op, void *data, size_t len, const void *usr, size_t usr_len)
{
	struct consumer_server *self = &consumer_server;
	const u8 *message = usr;

	self->requests++;
	if (priv != self || !usr_len || usr_len > 1 + CONSUMER_TEXT || len > MOST_DATA ||
	    memcmp(message + 1, consumer_text, usr_len - 1)) {
		self->damaged = true;
		return -EBADMSG;
	}
	switch (message[0]) {
	case CONSUMER_STORE:
		memcpy(stored, data, len);
		break;
	case CONSUMER_LOAD:
		memcpy(data, stored, len);
		break;
	case CONSUMER_REFUSE:
		return -EROFS;
	case CONSUMER_FAIL:
		rtrs_srv_resp_rdma(op, -ENOSPC);
		return 0;
	case CONSUMER_HOLD:
		return hold(op) ? 0 : -ENOMEM;
	default:
		self->damaged = true;
		return -EINVAL;
	}
	rtrs_srv_resp_rdma(op, 0);
	return 0;
}

static int on_link(struct rtrs_srv_sess *sess, enum rtrs_srv_link_ev ev, void *priv)
{
	struct consumer_server *self = &consumer_server;

	if (ev == RTRS_SRV_LINK_EV_DISCONNECTED) {
		self->damaged |= priv != self;
		self->disconnected++;
		return 0;
	}
	if (self->refuse)
		return self->refuse;
	self->depth = rtrs_srv_get_queue_depth(sess);
	self->damaged |= rtrs_srv_get_path_name(sess, self->name, sizeof(self->name)) != 0;
	rtrs_srv_set_sess_priv(sess, self);
	self->connected++;
	return 0;
}

int consumer_server_open(void)
{
	struct rtrs_srv_ops ops = { .rdma_ev = on_request, .link_ev = on_link };
	int err;

	memset(&consumer_server, 0, sizeof(consumer_server));
	stored = kvzalloc(MOST_DATA, GFP_KERNEL);
	if (!stored)
		return -ENOMEM;
	context = rtrs_srv_open(&ops, CONSUMER_PORT);
	if (!IS_ERR(context))
		return 0;
	kvfree(stored);
	err = PTR_ERR(context);
	context = NULL;
	return err;
}

void consumer_server_close(void)
{
	if (!context)
		return;
	rtrs_srv_close(context);
	irq_work_sync(&releasing);
	context = NULL;
	kvfree(stored);
}
