/* SPDX-License-Identifier: GPL-2.0 */
/* The border between the C glue of rtrs-server.ko and its core. Context tags as in kapi/types.h. */
#ifndef RTRS_SRV_CORE_H
#define RTRS_SRV_CORE_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_module;
struct rtrs_srv_core; /* an opened server */
struct rtrs_srv_sess; /* a session, as users see it */
struct rtrs_srv_op;   /* a request that a user has */

/* Parameters of the module, as they were given: rtrs_srv_core_init() checks them. */
struct rtrs_srv_core_params {
	kapi_s64 max_chunk_size;
	kapi_s64 sess_queue_depth;
	int always_invalidate;
};

enum rtrs_srv_core_event { RTRS_SRV_CORE_CONNECTED = 0, RTRS_SRV_CORE_DISCONNECTED = 1 };

/* What a user is called for. user is that of rtrs_srv_core_open(), priv what rtrs_srv_core_set_priv() gave the session. */
struct rtrs_srv_core_ops {
	/*
	 * [sleep] A request: of a write data_len bytes at data that the client has written, of a read as many to be filled; and
	 * the client's message. All of it is the user's until it calls rtrs_srv_core_resp() once; or until this returns an errno,
	 * of either sign, which is then the answer. Called by a work of the connection: not from here rtrs_srv_core_close().
	 */
	int (*rdma_ev)(void *user, void *priv, struct rtrs_srv_op *op, void *data, kapi_size data_len, const void *usr,
		       kapi_size usr_len);
	/*
	 * [sleep] The first path of a session has connected, before its first request; or the last one is gone, and no request
	 * of it is left: then sess is not used any more. Of one session one at a time. A negative errno for
	 * RTRS_SRV_CORE_CONNECTED ends the path.
	 */
	int (*link_ev)(void *user, struct rtrs_srv_sess *sess, enum rtrs_srv_core_event event, void *priv);
};

/* [init] -EINVAL: a parameter, which is logged; -ENOMEM. */
int rtrs_srv_core_init(struct kapi_module *self, const struct rtrs_srv_core_params *params);
void rtrs_srv_core_exit(void); /* [init] no server is open */

/* [sleep] Clients of net may connect to port. -EADDRINUSE, -ENOMEM, and the errors of kapi_cm_listen(). */
int rtrs_srv_core_open(struct kapi_net *net, const struct rtrs_srv_core_ops *ops, void *user, kapi_u16 port,
		       struct rtrs_srv_core **server);
/* [sleep] Ends all sessions, and waits for the user's answers to what it has of them. */
void rtrs_srv_core_close(struct rtrs_srv_core *server);

/* [any] The user's answer to a request: 0 or an errno. The request is the user's no more. Also from a hard interrupt. */
void rtrs_srv_core_resp(struct rtrs_srv_op *op, int status);
void rtrs_srv_core_set_priv(struct rtrs_srv_sess *sess, void *priv); /* [any] from link_ev */
/* [any] The session's name, with its final zero cut to length bytes. -ENOTCONN: it has no connected path. */
int rtrs_srv_core_path_name(struct rtrs_srv_sess *sess, char *name, kapi_size length);
int rtrs_srv_core_queue_depth(struct rtrs_srv_sess *sess); /* [any] requests of it at a time */

KAPI_END
#endif
