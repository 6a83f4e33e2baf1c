/* SPDX-License-Identifier: GPL-2.0 */
/* What the C files of rds_rdma.ko share among themselves; core does not see it. */
#ifndef RDS_RDMA_GLUE_H
#define RDS_RDMA_GLUE_H

int rds_rdma_glue_net_register(void);
void rds_rdma_glue_net_unregister(void);

#endif
