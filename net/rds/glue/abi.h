/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The symbol that only modules of one build share: the build names it after a hash of the headers between
 * rds.ko and its transports (RDS_TRANSPORT_ABI, see Kbuild). MODVERSIONS sees prototypes but not the layout
 * behind opaque pointers, so a transport of another build would load and corrupt memory; with this symbol, insmod
 * reports "Unknown symbol".
 */
#ifndef RDS_GLUE_ABI_H
#define RDS_GLUE_ABI_H

#ifndef RDS_TRANSPORT_ABI
#error "Kbuild must define RDS_TRANSPORT_ABI"
#endif

extern const int RDS_TRANSPORT_ABI;

#endif
