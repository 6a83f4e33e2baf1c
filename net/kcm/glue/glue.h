/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations shared by the C files of kcm.ko, not by core. */
#ifndef KCM_GLUE_H
#define KCM_GLUE_H

#include <net/net_namespace.h>

struct kcm_net;

/* [task] The core's side of a namespace; valid while the caller keeps the namespace alive. */
struct kcm_net *kcm_glue_net(struct net *net);

int kcm_glue_net_register(void);
void kcm_glue_net_unregister(void);
int kcm_glue_family_register(void);
void kcm_glue_family_unregister(void);
/* [init] /proc/net/kcm and kcm_stats of a namespace. */
int kcm_glue_proc_create(struct net *net);
void kcm_glue_proc_remove(struct net *net);

#endif
