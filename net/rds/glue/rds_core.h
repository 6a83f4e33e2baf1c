/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The border between the C glue of rds.ko and its core: the functions and structs for the kernel's calls on an RDS socket.
 * Core decides everything; a glue function fills a struct and returns core's result. Context tags as in kapi/types.h.
 */
#ifndef RDS_CORE_H
#define RDS_CORE_H

#include <kapi/report.h>
#include <kapi/types.h>
#include <kapi/wait.h>
#include <kapi/socket.h>

KAPI_BEGIN

struct rds_net;    /* RDS in one network namespace */
struct rds_socket; /* the core of one socket */

/* Values behind net.rds.*, one set a namespace. Written by sysctl handlers within the bounds in rds_sysctl_table. */
struct rds_sysctl {
	unsigned long reconnect_min_delay_ms;
	unsigned long reconnect_max_delay_ms;
	unsigned int max_unacked_packets;
	unsigned int max_unacked_bytes;
	unsigned int ping_enable;
	unsigned int congestion_refresh_ms; /* the map of a congested peer that is silent for so long is requested */
	unsigned int receive_limit_factor;  /* hard limit of a receive queue: this times SO_RCVBUF, in true size */
	unsigned int send_limit_max;        /* bytes that a socket without SO_SNDBUF may send without acknowledgement */
	unsigned int idle_connection_ms;    /* a connection that was unused for so long ends; 0: none does */
};

/* One row of /proc/sys/net/rds: glue registers them, the bounds are policy. */
struct rds_sysctl_row {
	const char *name;
	unsigned int offset; /* in struct rds_sysctl */
	unsigned int size;   /* sizeof the value: int or long */
	unsigned long min, max;
	int min_is, max_is; /* row whose present value is the bound instead, or -1 */
};
extern const struct rds_sysctl_row rds_sysctl_table[];
extern const unsigned int rds_sysctl_rows;
#define RDS_PF 21   /* /proc/sys/net/rds/pf_rds */
#define RDS_SOL 276 /* /proc/sys/net/rds/sol_rds */

/* What programs read over netlink, for kapi_report_register(). */
extern const struct kapi_report_table rds_report_tables[];
extern const unsigned int rds_report_table_count;

int rds_core_init(void);  /* [init] */
void rds_core_exit(void); /* [init] no socket, namespace or transport is left; returns when no code of the module will run */

/* [init] A namespace begins or ends. At its end every connection is torn down at once. */
int rds_net_create(struct kapi_net *host, struct rds_net **net);
void rds_net_destroy(struct rds_net *net);
struct rds_sysctl *rds_net_sysctl(struct rds_net *net);

/* [task] type and protocol are socket()'s. The core object lives until rds_socket_destroy. */
int rds_socket_check(int type, int protocol); /* 0 or the errno that socket() returns */
int rds_socket_create(struct rds_net *net, struct kapi_sk *sk, struct rds_socket **socket);
void rds_socket_release(
    struct rds_socket *socket); /* [sleep] close(): unbinds, cancels unacknowledged messages, drops unread ones */
void rds_socket_destroy(struct rds_socket *socket); /* [any] from the destructor of sk */

/* [task] name is in kernel memory, length bytes of it. */
int rds_socket_bind(struct rds_socket *socket, const void *name, int length);
int rds_socket_connect(struct rds_socket *socket, const void *name, int length);
/* [task] Fills name (at least 28 bytes); returns its length or an errno. */
int rds_socket_getname(struct rds_socket *socket, void *name, int peer);

struct rds_send {
	struct kapi_msg *msg;
	kapi_size size;
	const void *name; /* kernel memory; name_length 0: the connected peer */
	int name_length;
	const void *control; /* the kernel's copy of the control data */
	kapi_size control_length;
	unsigned int flags; /* MSG_* */
};
void rds_socket_send_limit_changed(struct rds_socket *socket); /* [any] SO_SNDBUF was set: a blocked sender looks again */
kapi_s64 rds_socket_sendmsg(struct rds_socket *socket, const struct rds_send *send); /* [task] bytes or errno */

struct rds_receive {
	struct kapi_msg *msg;
	kapi_size size;
	unsigned int flags;       /* MSG_* of the call */
	unsigned int out_flags;   /* MSG_* to report */
	int name_length;          /* filled: 0 when the call has no sender */
	kapi_u8 name[28];
};
kapi_s64 rds_socket_recvmsg(struct rds_socket *socket,
			    struct rds_receive *receive); /* [task] bytes or errno; not for MSG_ERRQUEUE */

unsigned int rds_socket_poll(struct rds_socket *socket, struct kapi_poll *poll); /* [task] KAPI_IN... */

int rds_socket_setsockopt(struct rds_socket *socket, int name, const struct kapi_optval *value, int length);
/* *length: in the user's length, out the length to report (glue writes it back whenever *report). Returns as getsockopt
 * does. */
int rds_socket_getsockopt(struct rds_socket *socket, int name, const struct kapi_optval *value, int *length,
			  int *report);
int rds_socket_ioctl(struct rds_socket *socket, unsigned int command, const struct kapi_optval *argument);

KAPI_END
#endif
