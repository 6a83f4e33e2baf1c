/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between programs and RDS, as the kernel's <linux/rds.h>, <linux/socket.h> and <linux/in6.h>
 * define it. Core cannot include those headers; these are its own names for the same numbers and layouts,
 * prefixed so that both can be seen at once. net/rds/glue/abi_check.c compares every one with the kernel's when
 * the modules are built.
 *
 * "be" in a comment: network byte order. Addresses are 4 or 16 bytes in network order.
 */
#ifndef RDS_UAPI_H
#define RDS_UAPI_H

#include <kapi/types.h>

#define RDS_ABI_PACKED __attribute__((packed))

/* Families, levels, types. */
#define RDS_ABI_AF_UNSPEC 0
#define RDS_ABI_AF_INET 2
#define RDS_ABI_AF_INET6 10
#define RDS_ABI_AF_RDS 21
#define RDS_ABI_SOCK_SEQPACKET 5
#define RDS_ABI_SOL_SOCKET 1
#define RDS_ABI_SOL_RDS 276

/* Flags of sendmsg and recvmsg. */
#define RDS_ABI_MSG_OOB 0x1
#define RDS_ABI_MSG_PEEK 0x2
#define RDS_ABI_MSG_CTRUNC 0x8
#define RDS_ABI_MSG_TRUNC 0x20
#define RDS_ABI_MSG_DONTWAIT 0x40
#define RDS_ABI_MSG_WAITALL 0x100
#define RDS_ABI_MSG_NOSIGNAL 0x4000
#define RDS_ABI_MSG_MORE 0x8000
#define RDS_ABI_MSG_ERRQUEUE 0x2000
#define RDS_ABI_MSG_BATCH 0x40000
#define RDS_ABI_MSG_ZEROCOPY 0x4000000

struct rds_abi_sockaddr_in {
	kapi_u16 sin_family;
	kapi_u16 sin_port; /* be */
	kapi_u8 sin_addr[4];
	kapi_u8 sin_zero[8];
};

struct rds_abi_sockaddr_in6 {
	kapi_u16 sin6_family;
	kapi_u16 sin6_port;     /* be */
	kapi_u32 sin6_flowinfo; /* be */
	kapi_u8 sin6_addr[16];
	kapi_u32 sin6_scope_id;
};

#define RDS_ABI_SOCKADDR_STORAGE_SIZE 128

/* A control message's header; data follows it at once, the next header at the aligned length. */
struct rds_abi_cmsghdr {
	kapi_size cmsg_len; /* header and data */
	int cmsg_level;
	int cmsg_type;
};
#define RDS_ABI_CMSG_ALIGN(length) (((length) + sizeof(long) - 1) & ~(sizeof(long) - 1))

/* Options of level SOL_RDS. */
#define RDS_ABI_CANCEL_SENT_TO 1
#define RDS_ABI_GET_MR 2
#define RDS_ABI_FREE_MR 3
#define RDS_ABI_RECVERR 5
#define RDS_ABI_CONG_MONITOR 6
#define RDS_ABI_GET_MR_FOR_DEST 7
#define RDS_ABI_SO_TRANSPORT 8
#define RDS_ABI_SO_MSG_RXPATH_LATENCY 10
#define RDS_ABI_SO_TIMESTAMP_OLD 29
#define RDS_ABI_RECV_LENGTHS 32 /* hawser's own */
#define RDS_ABI_SO_TIMESTAMP_NEW 63

/* Values of SO_RDS_TRANSPORT. */
#define RDS_ABI_TRANS_IB 0
#define RDS_ABI_TRANS_GAP 1
#define RDS_ABI_TRANS_TCP 2
#define RDS_ABI_TRANS_COUNT 3
#define RDS_ABI_TRANS_NONE (-1)

/* ioctl; the argument points to a rds_tos_t, one byte. */
#define RDS_ABI_SIOCRDSSETTOS 0x89e0
#define RDS_ABI_SIOCRDSGETTOS 0x89e1

/* Control messages of level SOL_RDS. */
#define RDS_ABI_CMSG_RDMA_ARGS 1
#define RDS_ABI_CMSG_RDMA_DEST 2
#define RDS_ABI_CMSG_RDMA_MAP 3
#define RDS_ABI_CMSG_RDMA_STATUS 4
#define RDS_ABI_CMSG_CONG_UPDATE 5
#define RDS_ABI_CMSG_ATOMIC_FADD 6
#define RDS_ABI_CMSG_ATOMIC_CSWP 7
#define RDS_ABI_CMSG_MASKED_ATOMIC_FADD 8
#define RDS_ABI_CMSG_MASKED_ATOMIC_CSWP 9
#define RDS_ABI_CMSG_RXPATH_LATENCY 11
#define RDS_ABI_CMSG_ZCOPY_COOKIE 12
#define RDS_ABI_CMSG_ZCOPY_COMPLETION 13
#define RDS_ABI_CMSG_LENGTHS 32 /* hawser's own */
#define RDS_ABI_MOST_LENGTHS 1024
#define RDS_ABI_MAX_RUN 64 /* of messages that one recvmsg returns */

/* RDS_CONG_MONITOR: port p is bit p % 64 of the mask. */
#define RDS_ABI_CONG_MONITOR_SIZE 64

/* getsockopt items. */
#define RDS_ABI_INFO_FIRST 10000
#define RDS_ABI_INFO_COUNTERS 10000
#define RDS_ABI_INFO_CONNECTIONS 10001
#define RDS_ABI_INFO_SEND_MESSAGES 10003
#define RDS_ABI_INFO_RETRANS_MESSAGES 10004
#define RDS_ABI_INFO_RECV_MESSAGES 10005
#define RDS_ABI_INFO_SOCKETS 10006
#define RDS_ABI_INFO_TCP_SOCKETS 10007
#define RDS_ABI_INFO_IB_CONNECTIONS 10008
#define RDS_ABI_INFO_CONNECTION_STATS 10009
#define RDS_ABI_INFO_IWARP_CONNECTIONS 10010
#define RDS_ABI_INFO6_CONNECTIONS 10011
#define RDS_ABI_INFO6_SEND_MESSAGES 10012
#define RDS_ABI_INFO6_RETRANS_MESSAGES 10013
#define RDS_ABI_INFO6_RECV_MESSAGES 10014
#define RDS_ABI_INFO6_SOCKETS 10015
#define RDS_ABI_INFO6_TCP_SOCKETS 10016
#define RDS_ABI_INFO6_IB_CONNECTIONS 10017
#define RDS_ABI_INFO_LAST 10017

struct rds_abi_info_counter {
	kapi_u8 name[32];
	kapi_u64 value;
} RDS_ABI_PACKED;

#define RDS_ABI_INFO_CONNECTION_FLAG_SENDING 0x01
#define RDS_ABI_INFO_CONNECTION_FLAG_CONNECTING 0x02
#define RDS_ABI_INFO_CONNECTION_FLAG_CONNECTED 0x04
#define RDS_ABI_TRANSNAMSIZ 16

struct rds_abi_info_connection {
	kapi_u64 next_tx_seq;
	kapi_u64 next_rx_seq;
	kapi_u8 laddr[4];
	kapi_u8 faddr[4];
	kapi_u8 transport[RDS_ABI_TRANSNAMSIZ];
	kapi_u8 flags;
	kapi_u8 tos;
} RDS_ABI_PACKED;

struct rds_abi_info6_connection {
	kapi_u64 next_tx_seq;
	kapi_u64 next_rx_seq;
	kapi_u8 laddr[16];
	kapi_u8 faddr[16];
	kapi_u8 transport[RDS_ABI_TRANSNAMSIZ];
	kapi_u8 flags;
} RDS_ABI_PACKED;

#define RDS_ABI_INFO_MESSAGE_FLAG_ACK 0x01
#define RDS_ABI_INFO_MESSAGE_FLAG_FAST_ACK 0x02

struct rds_abi_info_message {
	kapi_u64 seq;
	kapi_u32 len;
	kapi_u8 laddr[4];
	kapi_u8 faddr[4];
	kapi_u16 lport; /* be */
	kapi_u16 fport; /* be */
	kapi_u8 flags;
	kapi_u8 tos;
} RDS_ABI_PACKED;

struct rds_abi_info6_message {
	kapi_u64 seq;
	kapi_u32 len;
	kapi_u8 laddr[16];
	kapi_u8 faddr[16];
	kapi_u16 lport; /* be */
	kapi_u16 fport; /* be */
	kapi_u8 flags;
	kapi_u8 tos;
} RDS_ABI_PACKED;

struct rds_abi_info_socket {
	kapi_u32 sndbuf;
	kapi_u8 bound_addr[4];
	kapi_u8 connected_addr[4];
	kapi_u16 bound_port;     /* be */
	kapi_u16 connected_port; /* be */
	kapi_u32 rcvbuf;
	kapi_u64 inum;
} RDS_ABI_PACKED;

struct rds_abi_info6_socket {
	kapi_u32 sndbuf;
	kapi_u8 bound_addr[16];
	kapi_u8 connected_addr[16];
	kapi_u16 bound_port;     /* be */
	kapi_u16 connected_port; /* be */
	kapi_u32 rcvbuf;
	kapi_u64 inum;
} RDS_ABI_PACKED;

struct rds_abi_info_tcp_socket {
	kapi_u8 local_addr[4];
	kapi_u16 local_port; /* be */
	kapi_u8 peer_addr[4];
	kapi_u16 peer_port; /* be */
	kapi_u64 hdr_rem;
	kapi_u64 data_rem;
	kapi_u32 last_sent_nxt;
	kapi_u32 last_expected_una;
	kapi_u32 last_seen_una;
	kapi_u8 tos;
} RDS_ABI_PACKED;

struct rds_abi_info6_tcp_socket {
	kapi_u8 local_addr[16];
	kapi_u16 local_port; /* be */
	kapi_u8 peer_addr[16];
	kapi_u16 peer_port; /* be */
	kapi_u64 hdr_rem;
	kapi_u64 data_rem;
	kapi_u32 last_sent_nxt;
	kapi_u32 last_expected_una;
	kapi_u32 last_seen_una;
} RDS_ABI_PACKED;

#define RDS_ABI_IB_GID_LEN 16

struct rds_abi_info_rdma_connection {
	kapi_u8 src_addr[4];
	kapi_u8 dst_addr[4];
	kapi_u8 src_gid[RDS_ABI_IB_GID_LEN];
	kapi_u8 dst_gid[RDS_ABI_IB_GID_LEN];
	kapi_u32 max_send_wr;
	kapi_u32 max_recv_wr;
	kapi_u32 max_send_sge;
	kapi_u32 rdma_mr_max;
	kapi_u32 rdma_mr_size;
	kapi_u8 tos;
	kapi_u8 sl;
	kapi_u32 cache_allocs;
};

struct rds_abi_info6_rdma_connection {
	kapi_u8 src_addr[16];
	kapi_u8 dst_addr[16];
	kapi_u8 src_gid[RDS_ABI_IB_GID_LEN];
	kapi_u8 dst_gid[RDS_ABI_IB_GID_LEN];
	kapi_u32 max_send_wr;
	kapi_u32 max_recv_wr;
	kapi_u32 max_send_sge;
	kapi_u32 rdma_mr_max;
	kapi_u32 rdma_mr_size;
	kapi_u8 tos;
	kapi_u8 sl;
	kapi_u32 cache_allocs;
};

/* Points of the receive path for SO_RDS_MSG_RXPATH_LATENCY. */
#define RDS_ABI_RX_HDR_TO_DGRAM_START 0
#define RDS_ABI_RX_DGRAM_REASSEMBLE 1
#define RDS_ABI_RX_DGRAM_DELIVERED 2
#define RDS_ABI_RX_TRACE_MAX 3

struct rds_abi_rx_trace_so {
	kapi_u8 rx_traces;
	kapi_u8 rx_trace_pos[RDS_ABI_RX_TRACE_MAX];
};

struct rds_abi_cmsg_rx_trace {
	kapi_u8 rx_traces;
	kapi_u8 rx_trace_pos[RDS_ABI_RX_TRACE_MAX];
	kapi_u64 rx_trace[RDS_ABI_RX_TRACE_MAX];
};

/* RDMA: arguments of options and control messages. */
struct rds_abi_iovec {
	kapi_u64 addr;
	kapi_u64 bytes;
};

struct rds_abi_get_mr_args {
	struct rds_abi_iovec vec;
	kapi_u64 cookie_addr;
	kapi_u64 flags;
};

struct rds_abi_get_mr_for_dest_args {
	union {
		kapi_u8 dest_addr[RDS_ABI_SOCKADDR_STORAGE_SIZE];
		kapi_u64 dest_addr_align;
	};
	struct rds_abi_iovec vec;
	kapi_u64 cookie_addr;
	kapi_u64 flags;
};

struct rds_abi_free_mr_args {
	kapi_u64 cookie;
	kapi_u64 flags;
};

struct rds_abi_rdma_args {
	kapi_u64 cookie;
	struct rds_abi_iovec remote_vec;
	kapi_u64 local_vec_addr;
	kapi_u64 nr_local;
	kapi_u64 flags;
	kapi_u64 user_token;
};

/* operand: compare, swap and their masks, or add and its carry mask, by the type of the control message. */
struct rds_abi_atomic_args {
	kapi_u64 cookie;
	kapi_u64 local_addr;
	kapi_u64 remote_addr;
	kapi_u64 operand[4];
	kapi_u64 flags;
	kapi_u64 user_token;
};

struct rds_abi_rdma_notify {
	kapi_u64 user_token;
	kapi_s32 status;
};

#define RDS_ABI_RDMA_SUCCESS 0
#define RDS_ABI_RDMA_REMOTE_ERROR 1
#define RDS_ABI_RDMA_CANCELED 2
#define RDS_ABI_RDMA_DROPPED 3
#define RDS_ABI_RDMA_OTHER_ERROR 4

#define RDS_ABI_MAX_ZCOOKIES 8

struct rds_abi_zcopy_cookies {
	kapi_u32 num;
	kapi_u32 cookies[RDS_ABI_MAX_ZCOOKIES];
};

#define RDS_ABI_RDMA_READWRITE 0x0001
#define RDS_ABI_RDMA_FENCE 0x0002
#define RDS_ABI_RDMA_INVALIDATE 0x0004
#define RDS_ABI_RDMA_USE_ONCE 0x0008
#define RDS_ABI_RDMA_DONTWAIT 0x0010
#define RDS_ABI_RDMA_NOTIFY_ME 0x0020
#define RDS_ABI_RDMA_SILENT 0x0040

#endif
