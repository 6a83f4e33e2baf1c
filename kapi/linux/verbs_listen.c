// SPDX-License-Identifier: GPL-2.0
/* Listeners, and the connections that are asked for. */

#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <rdma/ib_cm.h>

#include <kapi/linux.h>

#include "verbs.h"

struct kapi_cm_listener {
	struct rdma_cm_id *id;
	const struct kapi_cm_listener_ops *ops;
	void *context;
	struct mutex mutex; /* the connection manager calls for one device at a time only */
};

/* The traffic class of a route is the type of service where the route is one of IP. */
static u8 tos_of(const struct rdma_cm_id *id)
{
	return id->route.path_rec ? id->route.path_rec->traffic_class : 0;
}

/* Passes a request on. Returns whether core took it. */
static bool offer(struct kapi_cm_listener *listener, struct kapi_cm *cm, const struct rdma_conn_param *param)
{
	const struct kapi_cm_offer request = {
		.data = param->private_data,
		.size = min_t(size_t, param->private_data_len, KAPI_CM_REQUEST_BYTES),
		.reads_in = param->responder_resources,
		.reads_out = param->initiator_depth,
		.tos = tos_of(cm->id),
		.retry = param->retry_count,
	};
	u8 answer[KAPI_CM_REJECT_BYTES];
	kapi_size size = 0;
	int taken;

	mutex_lock(&listener->mutex);
	taken = listener->ops->request(listener->context, cm, &request, answer, &size);
	mutex_unlock(&listener->mutex);
	if (taken && cm->ops)
		return true;
	if (taken)
		pr_err_once("hawser: a request for a connection was taken and not attached\n");
	if (WARN_ON_ONCE(size > sizeof(answer)))
		size = 0;
	rdma_reject(cm->id, size ? answer : NULL, size, IB_CM_REJ_CONSUMER_DEFINED);
	return false;
}

/* Of a listener. A request has an id of its own, which has inherited this function and the context; refused, it is destroyed. */
static int on_request(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kapi_cm_listener *listener = id->context;
	struct kapi_cm *cm;

	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	cm = kapi_cm_alloc();
	id->event_handler = kapi_cm_on_event;
	id->context = cm;
	if (!cm)
		return -ENOMEM;
	cm->id = id;
	if (kapi_cm_learn(cm) && offer(listener, cm, &event->param.conn))
		return 0;
	id->context = NULL;
	kapi_cm_forget(cm);
	return -ECONNREFUSED;
}

static int begin(struct kapi_cm_listener *listener, enum kapi_cm_space space, const struct kapi_addr *addr, unsigned int backlog)
{
	struct sockaddr_storage name;
	int error = 0;

	kapi_rdma_sockaddr_of(space, addr, &name);
	if (name.ss_family == AF_INET6)
		error = rdma_set_afonly(listener->id, 0);
	if (!error)
		error = rdma_bind_addr(listener->id, (struct sockaddr *)&name);
	/* So the connection manager calls a port that another one listens on. */
	if (error == -EADDRNOTAVAIL)
		error = -EADDRINUSE;
	return error ? error : rdma_listen(listener->id, backlog);
}

int kapi_cm_listen(struct kapi_net *net, enum kapi_cm_space space, const struct kapi_addr *addr, unsigned int backlog,
		   const struct kapi_cm_listener_ops *ops, void *context, struct kapi_cm_listener **result)
{
	struct kapi_cm_listener *listener;
	bool v4 = ipv6_addr_v4mapped((const struct in6_addr *)addr->ip);
	int error;

	might_sleep();
	if (!kapi_rdma_is_any(addr) || (space == KAPI_CM_GID && v4))
		return -EINVAL;
	if (space == KAPI_CM_IP && !v4 && !ipv6_mod_enabled())
		return -EAFNOSUPPORT;
	listener = kmalloc(sizeof(*listener), GFP_KERNEL | __GFP_NOWARN);
	if (!listener)
		return -ENOMEM;
	listener->ops = ops;
	listener->context = context;
	mutex_init(&listener->mutex);
	listener->id = kapi_rdma_create_id(net, space, on_request, listener);
	if (IS_ERR(listener->id)) {
		error = PTR_ERR(listener->id);
		kfree(listener);
		return error;
	}
	error = begin(listener, space, addr, backlog);
	if (error)
		kapi_cm_listener_close(listener);
	else
		*result = listener;
	return error;
}
EXPORT_SYMBOL_GPL(kapi_cm_listen);

void kapi_cm_listener_close(struct kapi_cm_listener *listener)
{
	might_sleep();
	if (!listener)
		return;
	rdma_destroy_id(listener->id);
	mutex_destroy(&listener->mutex);
	kfree(listener);
}
EXPORT_SYMBOL_GPL(kapi_cm_listener_close);
