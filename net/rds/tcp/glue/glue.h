/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations shared by the C files of rds_tcp.ko, not by core. */
#ifndef RDS_TCP_GLUE_H
#define RDS_TCP_GLUE_H

int rds_tcp_glue_net_register(void);
void rds_tcp_glue_net_unregister(void);

#endif
