/* SPDX-License-Identifier: GPL-2.0 */
/* The border between the C glue of rds_tcp.ko and its core. Context tags as in kapi/types.h. */
#ifndef RDS_TCP_CORE_H
#define RDS_TCP_CORE_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_module;
struct rds_tcp_net;

/* Values behind net.rds.tcp.*, one set a namespace. */
struct rds_tcp_sysctl {
	int rds_tcp_sndbuf; /* bytes, 0: TCP tunes itself */
	int rds_tcp_rcvbuf;
	unsigned int rds_tcp_dead_peer_ms; /* unanswered for so long: the path is dropped */
};
/* Rows as in net/rds/glue/rds_core.h. */
struct rds_tcp_sysctl_row {
	const char *name;
	unsigned int offset;
	unsigned int size;
	unsigned long min, max;
};
extern const struct rds_tcp_sysctl_row rds_tcp_sysctl_table[];
extern const unsigned int rds_tcp_sysctl_rows;

/*
 * [init] The order of loading is init, the namespaces, publish; that of unloading is withdraw, the namespaces, exit.
 * A program can take the module and call into it as soon as publish runs, also while the module is still loading, so
 * nothing that can fail may follow. -EEXIST: another module has this transport. -ENOMEM.
 */
int rds_tcp_core_init(struct kapi_module *self);
int rds_tcp_core_publish(void);
void rds_tcp_core_withdraw(void);
void rds_tcp_core_exit(void);

int rds_tcp_net_create(struct kapi_net *host, struct rds_tcp_net **net); /* [init] listens */
void rds_tcp_net_destroy(struct rds_tcp_net *net); /* [init] no connection is left in the namespace */
struct rds_tcp_sysctl *rds_tcp_net_sysctl(struct rds_tcp_net *net);
/* [sleep] After a sysctl write: applies buffer sizes that have changed to live connections without dropping them. */
void rds_tcp_net_sysctl_changed(struct rds_tcp_net *net);

KAPI_END
#endif
