// SPDX-License-Identifier: GPL-2.0
/*
 * Connections: one end of each is an id of the connection manager. Its events come with the id's handler lock held, which is
 * also taken here for what must not run beside them.
 */

#include <linux/module.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cm.h>

#include <kapi/linux.h>

#include "verbs.h"

/* How the connection manager's events end a connection; what it has no error for is given one. */
static const struct {
	enum kapi_cm_why why;
	int error;
} ends[] = {
	[RDMA_CM_EVENT_ADDR_ERROR] = { KAPI_CM_UNRESOLVED, -EHOSTUNREACH },
	[RDMA_CM_EVENT_ROUTE_ERROR] = { KAPI_CM_UNRESOLVED, -EHOSTUNREACH },
	[RDMA_CM_EVENT_CONNECT_ERROR] = { KAPI_CM_FAILED, -EIO },
	[RDMA_CM_EVENT_UNREACHABLE] = { KAPI_CM_UNREACHABLE, -ETIMEDOUT },
	[RDMA_CM_EVENT_REJECTED] = { KAPI_CM_REJECTED, -ECONNREFUSED },
	[RDMA_CM_EVENT_DISCONNECTED] = { KAPI_CM_DISCONNECTED, -ECONNRESET },
	[RDMA_CM_EVENT_ADDR_CHANGE] = { KAPI_CM_ADDR_CHANGED, -ENETUNREACH },
	[RDMA_CM_EVENT_DEVICE_REMOVAL] = { KAPI_CM_DEVICE_REMOVED, -ENODEV },
};

static void say_end(struct kapi_cm *cm, const struct kapi_cm_end *end)
{
	if (cm->ended)
		return;
	cm->ended = true;
	cm->ops->ended(cm->context, end);
}

static void end_for(struct kapi_cm *cm, enum kapi_cm_why why, int error)
{
	const struct kapi_cm_end end = { .why = why, .error = error };

	say_end(cm, &end);
}

static void end_by(struct kapi_cm *cm, struct rdma_cm_event *event)
{
	struct kapi_cm_end end = { .why = ends[event->event].why, .error = ends[event->event].error };
	u8 size = 0;

	if (event->event == RDMA_CM_EVENT_REJECTED) {
		end.data = rdma_consumer_reject_data(cm->id, event, &size);
		end.size = min_t(size_t, size, KAPI_CM_REJECT_BYTES);
		end.reason = end.data ? IB_CM_REJ_CONSUMER_DEFINED : max(event->status, 0);
	} else if (event->status < 0) {
		end.error = event->status;
	}
	say_end(cm, &end);
}

/* Of addresses of IPv6: a request does not contain it. */
static void add_scope(const struct rdma_cm_id *id, struct kapi_addr *addr)
{
	if (id->route.addr.src_addr.ss_family == AF_INET6 && !addr->scope &&
	    ipv6_addr_type((const struct in6_addr *)addr->ip) & IPV6_ADDR_LINKLOCAL)
		addr->scope = id->route.addr.dev_addr.bound_dev_if;
}

bool kapi_cm_learn(struct kapi_cm *cm)
{
	struct rdma_cm_id *id = cm->id;
	struct kapi_cm_info info = { .port = id->port_num };

	cm->dev = kapi_rdma_dev_get(id->device);
	if (!cm->dev)
		return false;
	info.dev = cm->dev;
	kapi_rdma_addr_of((struct sockaddr_storage *)&id->route.addr.src_addr, &info.local);
	kapi_rdma_addr_of((struct sockaddr_storage *)&id->route.addr.dst_addr, &info.remote);
	add_scope(id, &info.local);
	add_scope(id, &info.remote);
	rdma_read_gids(id, (union ib_gid *)info.local_gid, (union ib_gid *)info.remote_gid);
	spin_lock_bh(&cm->lock);
	cm->info = info;
	spin_unlock_bh(&cm->lock);
	return true;
}

/*
 * The kernel's own RTRS stands still for ever on Soft-RoCE when it sends again what goes before a registration
 * (kapi/linux/verbs_hold.c); the kernel's own RDS posts such, too. On a busy machine that happens although nothing was lost,
 * because of an acknowledgement that is late. How long such a peer waits is what the request proposes, and that is made of this
 * time-out when the route is resolved (core/cma.c: cma_resolve_iboe_route()). Linux 6.1 proposes 2.1 s (19) by itself, later
 * ones 0.5 s.
 */
#define PATIENT_ACK_TIMEOUT 19

static void begin_route(struct kapi_cm *cm)
{
	int error = 0;

	if (cm->peer_registers && kapi_rdma_is_soft(cm->id->device))
		error = rdma_set_ack_timeout(cm->id, PATIENT_ACK_TIMEOUT);
	if (!error)
		error = rdma_resolve_route(cm->id, cm->timeout_ms);

	if (error)
		end_for(cm, KAPI_CM_UNRESOLVED, error);
}

static void say_resolved(struct kapi_cm *cm)
{
	if (kapi_cm_learn(cm))
		cm->ops->resolved(cm->context, cm->dev);
	else
		end_for(cm, KAPI_CM_DEVICE_REMOVED, -ENODEV);
}

static void say_established(struct kapi_cm *cm, const struct rdma_conn_param *param)
{
	const void *data = param->private_data_len ? param->private_data : NULL;

	cm->ops->established(cm->context, data, data ? min_t(size_t, param->private_data_len, KAPI_CM_ACCEPT_BYTES) : 0);
}

/* Newer kernels have further events, which are of no connection. */
int kapi_cm_on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kapi_cm *cm = id->context;

	if (cm->ended)
		return 0;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		begin_route(cm);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		say_resolved(cm);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		say_established(cm, &event->param.conn);
		break;
	default:
		if (event->event < ARRAY_SIZE(ends) && ends[event->event].why)
			end_by(cm, event);
	}
	return 0;
}

static void queue_pair_failed(struct work_struct *work)
{
	struct kapi_cm *cm = container_of(work, struct kapi_cm, failed);

	rdma_lock_handler(cm->id);
	end_for(cm, KAPI_CM_QUEUE_ERROR, -EIO);
	rdma_unlock_handler(cm->id);
}

struct kapi_cm *kapi_cm_alloc(void)
{
	struct kapi_cm *cm = kzalloc(sizeof(*cm), GFP_KERNEL | __GFP_NOWARN);

	if (cm) {
		INIT_WORK(&cm->failed, queue_pair_failed);
		spin_lock_init(&cm->lock);
	}
	return cm;
}

void kapi_cm_forget(struct kapi_cm *cm)
{
	kapi_rdma_dev_put(cm->dev);
	kfree(cm);
}

static int begin(struct kapi_cm *cm, const struct kapi_cm_route *route)
{
	struct sockaddr_storage local, remote;
	bool any = kapi_rdma_is_any(&route->local) && !route->local.port;
	int error;

	if (kapi_rdma_is_loopback(&route->local))
		return -ENODEV;
	kapi_rdma_sockaddr_of(route->space, &route->local, &local);
	kapi_rdma_sockaddr_of(route->space, &route->remote, &remote);
	/* An address that may be of either family becomes one of the peer's. */
	if (kapi_rdma_is_any(&route->local))
		local.ss_family = remote.ss_family;
	error = rdma_set_reuseaddr(cm->id, 1);
	if (error)
		return error;
	rdma_set_service_type(cm->id, route->tos);
	/*
	 * Bound by a call of its own: rdma_resolve_addr(), which would do it, warns in the log when the device is removed between
	 * its two steps. Of a bound one it returns an error then.
	 */
	error = any ? 0 : rdma_bind_addr(cm->id, (struct sockaddr *)&local);
	if (error)
		return error;
	return rdma_resolve_addr(cm->id, NULL, (struct sockaddr *)&remote, route->timeout_ms);
}

/* False: its end was reported meanwhile, by a device that went, and its owner destroys it. */
static bool may_give_up(struct kapi_cm *cm)
{
	bool reported;

	rdma_lock_handler(cm->id);
	reported = cm->ended;
	cm->ended = true;
	rdma_unlock_handler(cm->id);
	return !reported;
}

int kapi_cm_connect(struct kapi_net *net, const struct kapi_cm_route *route, const struct kapi_cm_ops *ops, void *context,
		    struct kapi_cm **result)
{
	struct kapi_cm *cm = kapi_cm_alloc();
	int error;

	might_sleep();
	if (!cm)
		return -ENOMEM;
	cm->ops = ops;
	cm->context = context;
	cm->timeout_ms = route->timeout_ms;
	cm->peer_registers = route->peer_registers;
	cm->info.local = route->local;
	cm->info.remote = route->remote;
	cm->id = kapi_rdma_create_id(net, route->space, kapi_cm_on_event, cm);
	if (IS_ERR(cm->id)) {
		error = PTR_ERR(cm->id);
		kapi_cm_forget(cm);
		return error;
	}
	*result = cm;
	error = begin(cm, route);
	if (!error || !may_give_up(cm))
		return 0;
	rdma_destroy_id(cm->id);
	kapi_cm_forget(cm);
	return error;
}
EXPORT_SYMBOL_GPL(kapi_cm_connect);

void kapi_cm_attach(struct kapi_cm *cm, const struct kapi_cm_ops *ops, void *context)
{
	cm->ops = ops;
	cm->context = context;
}
EXPORT_SYMBOL_GPL(kapi_cm_attach);

static bool are_possible(const struct kapi_cm *cm, const struct kapi_cm_options *options, size_t most)
{
	const struct kapi_rdma_attrs *attrs = &cm->dev->attrs;

	return options->size <= most && options->reads_in <= attrs->max_reads_in && options->reads_out <= attrs->max_reads_out &&
	       options->retry <= 7 && options->rnr_retry <= 7 && options->rnr_timer <= 31 && options->ack_timeout <= 31;
}

static int set_timers(struct kapi_cm *cm, const struct kapi_cm_options *options)
{
	int error = rdma_set_min_rnr_timer(cm->id, options->rnr_timer);

	if (!error && options->ack_timeout)
		error = rdma_set_ack_timeout(cm->id, options->ack_timeout);
	return error;
}

/* Asks a peer, or answers one: call is the connection manager's function for that. */
static int go_on(struct kapi_cm *cm, const struct kapi_cm_options *options, size_t most,
		 int (*call)(struct rdma_cm_id *id, struct rdma_conn_param *param))
{
	struct rdma_conn_param param = {
		.private_data = options->data,
		.private_data_len = options->size,
		.responder_resources = options->reads_in,
		.initiator_depth = options->reads_out,
		.flow_control = 1,
		.retry_count = options->retry,
		.rnr_retry_count = options->rnr_retry,
	};
	int error = -EINVAL;

	might_sleep();
	rdma_lock_handler(cm->id);
	if (!cm->ended && cm->dev && cm->qp && are_possible(cm, options, most))
		error = set_timers(cm, options) ?: call(cm->id, &param);
	rdma_unlock_handler(cm->id);
	return error;
}

int kapi_cm_request(struct kapi_cm *cm, const struct kapi_cm_options *options)
{
	return go_on(cm, options, KAPI_CM_REQUEST_BYTES, rdma_connect_locked);
}
EXPORT_SYMBOL_GPL(kapi_cm_request);

int kapi_cm_accept(struct kapi_cm *cm, const struct kapi_cm_options *options)
{
	return go_on(cm, options, KAPI_CM_ACCEPT_BYTES, rdma_accept);
}
EXPORT_SYMBOL_GPL(kapi_cm_accept);

void kapi_cm_reject(struct kapi_cm *cm, const void *data, kapi_size size)
{
	might_sleep();
	rdma_lock_handler(cm->id);
	cm->ended = true;
	rdma_unlock_handler(cm->id);
	if (WARN_ON_ONCE(size > KAPI_CM_REJECT_BYTES))
		size = 0;
	rdma_reject(cm->id, data, size, IB_CM_REJ_CONSUMER_DEFINED);
}
EXPORT_SYMBOL_GPL(kapi_cm_reject);

void kapi_cm_disconnect(struct kapi_cm *cm)
{
	struct ib_qp_attr failed = { .qp_state = IB_QPS_ERR };

	might_sleep();
	/* The connection manager does the same, but not in each state. */
	if (cm->qp)
		ib_modify_qp(cm->qp->ib, &failed, IB_QP_STATE);
	rdma_disconnect(cm->id);
}
EXPORT_SYMBOL_GPL(kapi_cm_disconnect);

void kapi_cm_destroy(struct kapi_cm *cm)
{
	might_sleep();
	if (!cm)
		return;
	WARN_ON_ONCE(cm->qp);
	cancel_work_sync(&cm->failed);
	/*
	 * A device that is removed between the two halves of rdma_resolve_addr(), its new state and its request, cancels none;
	 * rdma_destroy_id() looks for none if the device is gone. The request would outlive the ID.
	 */
	rdma_addr_cancel(&cm->id->route.addr.dev_addr);
	rdma_destroy_id(cm->id);
	kapi_cm_forget(cm);
}
EXPORT_SYMBOL_GPL(kapi_cm_destroy);

void kapi_cm_describe(const struct kapi_cm *cm, struct kapi_cm_info *info)
{
	spinlock_t *lock = (spinlock_t *)&cm->lock;

	spin_lock_bh(lock);
	*info = cm->info;
	spin_unlock_bh(lock);
}
EXPORT_SYMBOL_GPL(kapi_cm_describe);
