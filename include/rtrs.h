/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of RTRS (rtrs-core, rtrs-client, rtrs-server) to other modules, such as RNBD.
 *
 * Names, types, values and meanings are those of the kernel's drivers/infiniband/ulp/rtrs/rtrs.h, of 6.1 and of 6.12 alike, so
 * that a module can be compiled for either.
 */
#ifndef RTRS_H
#define RTRS_H

#include <linux/scatterlist.h>
#include <linux/socket.h>
#include <linux/types.h>
#include <linux/uio.h>

struct rtrs_permit;   /* the right to have one request in flight, with one chunk of the server's memory */
struct rtrs_clt_sess; /* a client's session: its paths to one server */
struct rtrs_srv_ctx;  /* a server */
struct rtrs_srv_sess; /* a client's session, as its server has it */
struct rtrs_srv_op;   /* a request that the server has not answered */

/* The ends of a path: IPv4, IPv6 or AF_IB addresses. src NULL: any of the host's own. */
struct rtrs_addr {
	struct sockaddr_storage *src;
	struct sockaddr_storage *dst;
};

/* The client. */

enum rtrs_clt_link_ev {
	RTRS_CLT_LINK_EV_RECONNECTED,  /* a first path is connected again */
	RTRS_CLT_LINK_EV_DISCONNECTED, /* the last path has failed */
};

struct rtrs_clt_ops {
	void *priv;
	/* [sleep] From the first rtrs_clt_query() on, or from five seconds after rtrs_clt_open(). */
	void (*link_ev)(void *priv, enum rtrs_clt_link_ev ev);
};

/*
 * [sleep] Connects all paths to port and returns the session, or ERR_PTR() when one of them fails. pathname is the session's
 * name, which the server is informed of; the same name cannot be used twice. pdu_sz: bytes that the caller wants to have beside
 * each permit. A path that fails is connected again after reconnect_delay_sec seconds, max_reconnect_attempts times (-1: always).
 * nr_poll_queues: connections whose completions are polled for.
 */
struct rtrs_clt_sess *rtrs_clt_open(struct rtrs_clt_ops *ops, const char *pathname, const struct rtrs_addr *paths,
				    size_t path_cnt, u16 port, size_t pdu_sz, u8 reconnect_delay_sec,
				    s16 max_reconnect_attempts, u32 nr_poll_queues);

void rtrs_clt_close(struct rtrs_clt_sess *clt); /* [sleep] no permit is in use */

enum wait_type {
	RTRS_PERMIT_NOWAIT = 0,
	RTRS_PERMIT_WAIT = 1,
};

enum rtrs_clt_con_type {
	RTRS_ADMIN_CON, /* the connection of the service, which has its own completions */
	RTRS_IO_CON,    /* a connection of this CPU's */
};

/*
 * [any] with RTRS_PERMIT_NOWAIT: NULL when all are in use. [sleep] with RTRS_PERMIT_WAIT: waits for one. NULL when the last path
 * was lost meanwhile, or when for 30 seconds all permits have been in the hands of callers who have no request under way: they
 * may wait for one, too.
 */
struct rtrs_permit *rtrs_clt_get_permit(struct rtrs_clt_sess *sess, enum rtrs_clt_con_type con_type, enum wait_type wait);
void rtrs_clt_put_permit(struct rtrs_clt_sess *sess, struct rtrs_permit *permit); /* [any] */

struct rtrs_clt_req_ops {
	void *priv;
	void (*conf_fn)(void *priv, int errno); /* [any] 0 or a negative errno */
};

/*
 * [any] Sends a request: dir READ gets len bytes at most into sg, WRITE sends what sg holds; vec is a message of the caller's for
 * the server. 0: conf_fn is called exactly once, and sg and permit stay in use until then. Else it is not called: -ECONNABORTED
 * (no path), -EMSGSIZE (more than the session's limits), -EBUSY (the permit's last request ended with an error and without an
 * answer: the permit is to be put back), -EAGAIN (the send queue is full).
 */
int rtrs_clt_request(int dir, struct rtrs_clt_req_ops *ops, struct rtrs_clt_sess *sess, struct rtrs_permit *permit,
		     const struct kvec *vec, size_t nr, size_t len, struct scatterlist *sg, unsigned int sg_cnt);

int rtrs_clt_rdma_cq_direct(struct rtrs_clt_sess *clt, unsigned int index); /* [any] completions found in that poll queue */

struct rtrs_attrs {
	u32 queue_depth;  /* requests in flight */
	u32 max_io_size;  /* bytes of one request's data */
	u32 max_segments; /* pieces of its scatter list */
};

int rtrs_clt_query(struct rtrs_clt_sess *sess, struct rtrs_attrs *attr); /* [any] 0; -ECOMM: no path is connected */

/* The server. */

enum rtrs_srv_link_ev {
	RTRS_SRV_LINK_EV_CONNECTED,    /* a session has its first path */
	RTRS_SRV_LINK_EV_DISCONNECTED, /* its last path has gone */
};

struct rtrs_srv_ops {
	/*
	 * [sleep] A request. data: for a write the datalen bytes that came, for a read the place of the answer; usr: the client's
	 * message. priv: see rtrs_srv_set_sess_priv(). 0: rtrs_srv_resp_rdma() is to be called once; else that is the answer.
	 */
	int (*rdma_ev)(void *priv, struct rtrs_srv_op *id, void *data, size_t datalen, const void *usr, size_t usrlen);
	/* [sleep] For CONNECTED: an error ends the session. */
	int (*link_ev)(struct rtrs_srv_sess *sess, enum rtrs_srv_link_ev ev, void *priv);
};

struct rtrs_srv_ctx *rtrs_srv_open(struct rtrs_srv_ops *ops, u16 port); /* [sleep] or ERR_PTR(); ops are kept by the caller */
void rtrs_srv_close(struct rtrs_srv_ctx *ctx);                          /* [sleep] ends all sessions */

/* [any] Answers, also from a hard interrupt. true: id is no longer in use */
bool rtrs_srv_resp_rdma(struct rtrs_srv_op *id, int errno);
void rtrs_srv_set_sess_priv(struct rtrs_srv_sess *sess, void *priv);     /* [any] */
int rtrs_srv_get_path_name(struct rtrs_srv_sess *sess, char *pathname, size_t len); /* [any] 0; -ENOTCONN */
int rtrs_srv_get_queue_depth(struct rtrs_srv_sess *sess);                /* [any] */

/* Addresses. */

/*
 * [sleep] Reads "[SOURCE@]DESTINATION" (or with a comma), each "ip:" with an address of IPv4 or IPv6 or "gid:" with a GID.
 * Without a source addr->src is set to NULL. port is the destination's. -EINVAL, -EPROTONOSUPPORT (another prefix), -ENOMEM.
 */
int rtrs_addr_to_sockaddr(const char *str, size_t len, u16 port, struct rtrs_addr *addr);

/* [any] Writes an address, or SOURCE@DESTINATION; they return the length without the zero. */
int sockaddr_to_str(const struct sockaddr *addr, char *buf, size_t len);
int rtrs_addr_to_str(const struct rtrs_addr *addr, char *buf, size_t len);

#endif
