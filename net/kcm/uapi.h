/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between programs and KCM, as <linux/kcm.h>, <linux/socket.h> and our uapi/hawser_kcm.h define it, under
 * names of core's own: it cannot include those. glue/abi_check.c compares every one with them when the module is built.
 */
#ifndef KCM_UAPI_H
#define KCM_UAPI_H

#include <kapi/types.h>

#define KCM_ABI_SOCK_DGRAM 2
#define KCM_ABI_SOCK_SEQPACKET 5
#define KCM_ABI_SOL_KCM 281

#define KCM_ABI_MSG_PEEK 0x2
#define KCM_ABI_MSG_TRUNC 0x20
#define KCM_ABI_MSG_DONTWAIT 0x40
#define KCM_ABI_MSG_EOR 0x80
#define KCM_ABI_MSG_WAITALL 0x100
#define KCM_ABI_MSG_MORE 0x8000
#define KCM_ABI_MSG_BATCH 0x40000

/* ioctls (SIOCPROTOPRIVATE and following) and their arguments. */
#define KCM_ABI_ATTACH 0x89e0
#define KCM_ABI_UNATTACH 0x89e1
#define KCM_ABI_CLONE 0x89e2
struct kcm_abi_attach {
	kapi_s32 fd, bpf_fd;
};
struct kcm_abi_unattach {
	kapi_s32 fd;
};
struct kcm_abi_clone {
	kapi_s32 fd;
};

/* Socket options. */
#define KCM_ABI_RECV_DISABLE 1
#define KCM_ABI_ERRORS 16
#define KCM_ABI_RECV_CONNECTION 17
#define KCM_ABI_MAX_MESSAGE 18
#define KCM_ABI_STEERING 19
#define KCM_ABI_STATS 20
#define KCM_ABI_ATTACHED 21
#define KCM_ABI_RECV_LENGTHS 22

#define KCM_ABI_STEER_ROUND_ROBIN 0
#define KCM_ABI_STEER_LEAST_LOADED 1
#define KCM_ABI_STEER_CPU 2

/* The control messages; that of lengths is an array of kapi_u32. */
#define KCM_ABI_CONNECTION 1
struct kcm_abi_connection {
	kapi_u64 id;
};
#define KCM_ABI_LENGTHS 2
/* The head of a control message, as 64-bit programs lay it out; a 32-bit one's is translated before. */
struct kcm_abi_cmsghdr {
	kapi_u64 length; /* with this head */
	kapi_s32 level, type;
};

struct kcm_abi_attached {
	kapi_s32 fd;
	kapi_u32 reserved;
	kapi_u64 id;
};

#define KCM_ABI_CONN_RX_STOPPED 1
#define KCM_ABI_CONN_TX_STOPPED 2
#define KCM_ABI_CONN_RESERVED 4
#define KCM_ABI_CONN_PAUSED 8
struct kcm_abi_connection_stats {
	kapi_u64 id;
	kapi_u64 rx_msgs, rx_bytes;
	kapi_u64 tx_msgs, tx_bytes;
	kapi_u64 tx_reserved;
	kapi_u32 rx_partial;
	kapi_u32 state;
	kapi_s32 error;
	kapi_u16 local_port, remote_port;
	kapi_u8 local_addr[16], remote_addr[16];
};

#endif
