/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The border between the C glue of kcm.ko and its core: the functions and structs for the kernel's calls on a KCM socket.
 * Core decides everything; a glue function fills a struct and returns core's result. Context tags as in kapi/types.h.
 */
#ifndef KCM_CORE_H
#define KCM_CORE_H

#include <kapi/report.h>
#include <kapi/socket.h>
#include <kapi/types.h>
#include <kapi/wait.h>

KAPI_BEGIN

struct kcm_net;    /* KCM in one network namespace */
struct kcm_socket; /* the core of one socket */

int kcm_core_init(void);  /* [init] */
void kcm_core_exit(void); /* [init] no socket is left; returns when no code of the module will run */

int kcm_net_create(struct kapi_net *host, struct kcm_net **net); /* [init] */
void kcm_net_destroy(struct kcm_net *net);                       /* [init] no socket of it is left */

/* [task] type and protocol are socket()'s: 0 or the errno that it returns. */
int kcm_socket_check(int type, int protocol);
/*
 * [task] A socket of a new multiplexor, or, with sibling, another one of the sibling's and of its type. Lives until
 * kcm_socket_destroy.
 */
int kcm_socket_create(struct kcm_net *net, struct kapi_sk *sk, int type, struct kcm_socket *sibling,
		      struct kcm_socket **socket);
/* [sleep] close(): unread messages go to the other sockets; unsent messages are still sent, without the caller. */
void kcm_socket_release(struct kcm_socket *socket);
void kcm_socket_destroy(struct kcm_socket *socket); /* [any] from the destructor of sk */

struct kcm_send {
	struct kapi_msg *msg;
	kapi_size size;
	const void *control; /* the kernel's copy of the control data */
	kapi_size control_length;
	unsigned int flags;  /* MSG_* */
	int spliced;         /* pages of a pipe or file: only MSG_MORE decides whether the message continues */
};
kapi_s64 kcm_socket_sendmsg(struct kcm_socket *socket, const struct kcm_send *send); /* [task] bytes or errno */
void kcm_socket_send_limit_changed(struct kcm_socket *socket); /* [any] SO_SNDBUF was set: a blocked sender looks again */

struct kcm_receive {
	struct kapi_msg *msg;
	kapi_size size;
	unsigned int flags;     /* MSG_* of the call */
	unsigned int out_flags; /* MSG_* to report */
	int spliced;            /* into a pipe: what did not fit is kept, whatever the socket's type */
};
kapi_s64 kcm_socket_recvmsg(struct kcm_socket *socket, struct kcm_receive *receive); /* [task] bytes or errno */

unsigned int kcm_socket_poll(struct kcm_socket *socket, struct kapi_poll *poll); /* [task] KAPI_IN... */

int kcm_socket_setsockopt(struct kcm_socket *socket, int name, const struct kapi_optval *value, int length);
/* *length: in the user's length, out the length to report. Returns as getsockopt does. */
int kcm_socket_getsockopt(struct kcm_socket *socket, int name, const struct kapi_optval *value, int *length);
/* All commands but the one that makes a descriptor. nonblocking: the file's O_NONBLOCK. */
int kcm_socket_ioctl(struct kcm_socket *socket, unsigned int command, const struct kapi_optval *argument,
		     int nonblocking);

/* The contents of /proc/net/kcm. A row's texts are the glue's. */
struct kcm_traffic {
	kapi_u64 rx_msgs, rx_bytes, tx_msgs, tx_bytes;
};
struct kcm_socket_row {
	unsigned int index;
	struct kcm_traffic traffic;
	unsigned int recv_q, rmem, send_q;
	int reserved;      /* index of the connection it sends on, or -1 */
	int tx_wait;       /* waits for one */
	int tx_wait_more;  /* messages are held for the rest of a batch, or a message for the rest of it */
	int rx_wait;       /* ready to receive */
};
struct kcm_connection_row {
	unsigned int index;
	struct kcm_traffic traffic;
	unsigned int recv_q, rmem, send_q, smem;
	int done, tx_stopped, rx_stopped, rx_paused;
	int reserved;          /* index of the socket that sends, or -1 */
	unsigned int rx_need;  /* bytes of the message that is coming which are not here yet, 0: unknown */
};
struct kcm_mux_row {
	struct kcm_traffic traffic;
	unsigned int sockets, connections;
};
struct kcm_rows {
	int (*mux)(void *context, const struct kcm_mux_row *row);
	int (*socket)(void *context, const struct kcm_socket_row *row);
	int (*connection)(void *context, const struct kcm_connection_row *row);
};
/* [sleep] As next() of a kapi_report_table: HAWSER_CMD_KCM_CONNECTION_GET, HAWSER_CMD_KCM_MUX_GET. */
int kcm_net_report_connection(struct kcm_net *net, struct kapi_report_place *place, struct kapi_report *report);
int kcm_net_report_mux(struct kcm_net *net, struct kapi_report_place *place, struct kapi_report *report);
unsigned int kcm_net_muxes(struct kcm_net *net); /* [sleep] how many there are */
/*
 * [sleep] Calls rows' functions for each multiplexor and then for what belongs to it, until one gives anything but 0. They
 * are called with no lock held.
 */
void kcm_net_show(struct kcm_net *net, const struct kcm_rows *rows, void *context);

/* The contents of /proc/net/kcm_stats: the sums for all present and former objects. */
struct kcm_totals {
	struct kcm_traffic mux;
	kapi_u64 tx_retries, attach, unattach, unattach_reserved, rx_ready_drops;
	struct kcm_traffic connections;
	kapi_u64 reserved, unreserved, rx_aborts, rx_interrupted, rx_unrecovered, rx_no_memory, rx_need_more, rx_bad_length,
		rx_too_big, rx_timeouts, tx_aborts;
};
void kcm_net_totals(struct kcm_net *net, struct kcm_totals *totals); /* [sleep] */

KAPI_END
#endif
