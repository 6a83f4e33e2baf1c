/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations shared by the C files of rds.ko, not by core. */
#ifndef RDS_GLUE_H
#define RDS_GLUE_H

#include <net/net_namespace.h>

struct rds_net;

/* [task] The core's side of a namespace; valid while the caller keeps the namespace alive. */
struct rds_net *rds_glue_net(struct net *net);

int rds_glue_net_register(void);
void rds_glue_net_unregister(void);
int rds_glue_family_register(void);
void rds_glue_family_unregister(void);

#endif
