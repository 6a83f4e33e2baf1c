/* SPDX-License-Identifier: GPL-2.0 */
/* The border between the C glue of rtrs-client.ko and its core. Context tags as in kapi/types.h. */
#ifndef RTRS_CLT_CORE_H
#define RTRS_CLT_CORE_H

#include <kapi/types.h>
#include <kapi/verbs_memory.h>

KAPI_BEGIN

struct rtrs_clt_session;
struct rtrs_clt_chunk; /* a permit */

/* What new sessions have: the files of the same names, and what may be written there. */
struct rtrs_clt_core_params {
	unsigned int heartbeat_interval_ms, heartbeat_missed, reconnect_delay_ms, no_path_timeout_ms, io_timeout_ms;
};
/* The values of those that were not set. */
#define RTRS_CLT_CORE_PRESETS { 800, 4, 2000, 0, 0 }

/* [init] The module. -EINVAL: a parameter, which is logged; -ENOMEM, and the errors of sysfs and of the verbs. */
int rtrs_clt_core_init(struct kapi_module *self, const struct rtrs_clt_core_params *params);
void rtrs_clt_core_exit(void); /* [init] no session is left */

struct rtrs_clt_route {
	enum kapi_cm_space space;
	struct kapi_addr local;  /* :: or the v4-mapped any address: the host chooses. Port 0 */
	struct kapi_addr remote; /* its port is set by core */
};

struct rtrs_clt_open_args {
	struct kapi_net *net;    /* stays until rtrs_clt_core_close() */
	const char *name;        /* 1 to 254 bytes without '/' and '.', unique; copied */
	void *priv;
	/*
	 * In a process context, one call at a time: the first path is up again (1), the last one is down (0). Not before
	 * rtrs_clt_core_query() was called or five seconds have passed since the session was opened.
	 */
	void (*link)(void *priv, int up);
	const struct rtrs_clt_route *routes;
	unsigned int count;      /* at least 1 */
	kapi_u16 port;           /* of all paths, also of those that are added later */
	unsigned int reconnect_ms; /* between two attempts at most; core may try sooner */
	int max_reconnects;      /* attempts in a row; -1: no limit */
};

/*
 * [task] A session with all its paths, which are up when this returns. -EINVAL: name, no path; -EEXIST: the name, or a path
 * twice;
 * -EINTR: a signal; else the error of the first path that did not come up. Then nothing is left.
 */
int rtrs_clt_core_open(const struct rtrs_clt_open_args *args, struct rtrs_clt_session **session);
/* [sleep] Ends its requests with -ECONNABORTED and waits until its permits have come back. */
void rtrs_clt_core_close(struct rtrs_clt_session *session);
struct kapi_net *rtrs_clt_core_net(const struct rtrs_clt_session *session); /* [any] */

struct rtrs_clt_limits {
	kapi_u32 queue_depth, max_io_bytes, max_segments;
};
/* [any] 1: they are filled in; 0: no path is up. */
int rtrs_clt_core_query(struct rtrs_clt_session *session, struct rtrs_clt_limits *limits);

/*
 * [any] A permit, of one request at a time. wait: [sleep], until one is free, or waiting is in vain: see rtrs_clt_get_permit().
 * admin: for the service connection. NULL: none.
 */
struct rtrs_clt_chunk *rtrs_clt_core_get_permit(struct rtrs_clt_session *session, int admin, int wait);
void rtrs_clt_core_put_permit(struct rtrs_clt_session *session, struct rtrs_clt_chunk *permit); /* [any] its request has ended */

/* [any] Where the message of the permit's next request is to be written: *room bytes at most. */
void *rtrs_clt_core_message(struct rtrs_clt_session *session, struct rtrs_clt_chunk *permit, kapi_u32 *room);

struct rtrs_clt_request_args {
	int read;
	void *priv;
	void (*done)(void *priv, int error); /* [any] once: 0 or a negative errno */
	kapi_size message_bytes, data_bytes;
	struct kapi_sglist *list;            /* stays as it is until done() */
	unsigned int count;
};
/*
 * [any] Sends a request. After an error done() is not called: -EMSGSIZE, -EINVAL: its sizes or its list; -ECONNABORTED: no path;
 * -EAGAIN: the send queue is full; -EBUSY: the permit's last request has ended without an answer, and the server may still use
 * its chunk. A list that no device can map is tried again for ten seconds; then done() gets -EIO or -ENOMEM.
 */
int rtrs_clt_core_request(struct rtrs_clt_session *session, struct rtrs_clt_chunk *permit,
			  const struct rtrs_clt_request_args *args);

KAPI_END
#endif
