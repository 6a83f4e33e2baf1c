// SPDX-License-Identifier: GPL-2.0
/* Compares every number and layout in net/rds/uapi.h with the kernel's headers. No code comes of it. */
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/rds.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <net/sock.h>

#include <uapi/hawser_rds.h>

#include <kapi/errno.h>
#include <kapi/wait.h>

#include "rds_core.h"
#include "../uapi.h"

#define SAME(ours, kernels) static_assert((ours) == (kernels))
#define NUMBER(name) SAME(RDS_ABI_##name, name)
#define NUMBER_RDS(name) SAME(RDS_ABI_##name, RDS_##name)
#define ERRNO(name) SAME(KAPI_##name, name)
#define POLL(name) SAME(KAPI_##name, (__force unsigned int)EPOLL##name)

#define SIZE(ours, kernels) SAME(sizeof(struct ours), sizeof(struct kernels))
#define FIELD_AS(ours, our_field, kernels, field) \
	static_assert(offsetof(struct ours, our_field) == offsetof(struct kernels, field) && \
		      sizeof_field(struct ours, our_field) == sizeof_field(struct kernels, field))
#define FIELD(ours, kernels, field) FIELD_AS(ours, field, kernels, field)

NUMBER(AF_UNSPEC);
NUMBER(AF_INET);
NUMBER(AF_INET6);
NUMBER(AF_RDS);
NUMBER(SOCK_SEQPACKET);
NUMBER(SOL_SOCKET);
NUMBER(SOL_RDS);
SAME(RDS_PF, PF_RDS);
SAME(RDS_SOL, SOL_RDS);

NUMBER(MSG_OOB);
NUMBER(MSG_PEEK);
NUMBER(MSG_CTRUNC);
NUMBER(MSG_TRUNC);
NUMBER(MSG_DONTWAIT);
NUMBER(MSG_WAITALL);
NUMBER(MSG_NOSIGNAL);
NUMBER(MSG_MORE);
NUMBER(MSG_ERRQUEUE);
NUMBER(MSG_ZEROCOPY);
NUMBER(MSG_BATCH);

SIZE(rds_abi_sockaddr_in, sockaddr_in);
FIELD(rds_abi_sockaddr_in, sockaddr_in, sin_family);
FIELD(rds_abi_sockaddr_in, sockaddr_in, sin_port);
FIELD(rds_abi_sockaddr_in, sockaddr_in, sin_addr);
FIELD_AS(rds_abi_sockaddr_in, sin_zero, sockaddr_in, __pad);

SAME(RDS_ABI_SOCKADDR_STORAGE_SIZE, sizeof(struct __kernel_sockaddr_storage));

SIZE(rds_abi_sockaddr_in6, sockaddr_in6);
FIELD(rds_abi_sockaddr_in6, sockaddr_in6, sin6_family);
FIELD(rds_abi_sockaddr_in6, sockaddr_in6, sin6_port);
FIELD(rds_abi_sockaddr_in6, sockaddr_in6, sin6_flowinfo);
FIELD(rds_abi_sockaddr_in6, sockaddr_in6, sin6_addr);
FIELD(rds_abi_sockaddr_in6, sockaddr_in6, sin6_scope_id);

SIZE(rds_abi_cmsghdr, cmsghdr);
SAME(RDS_ABI_CMSG_ALIGN(13), CMSG_ALIGN(13));
SAME(sizeof(struct rds_abi_cmsghdr), CMSG_ALIGN(sizeof(struct cmsghdr)));
FIELD(rds_abi_cmsghdr, cmsghdr, cmsg_len);
FIELD(rds_abi_cmsghdr, cmsghdr, cmsg_level);
FIELD(rds_abi_cmsghdr, cmsghdr, cmsg_type);

NUMBER_RDS(CANCEL_SENT_TO);
NUMBER_RDS(GET_MR);
NUMBER_RDS(FREE_MR);
NUMBER_RDS(RECVERR);
NUMBER_RDS(CONG_MONITOR);
NUMBER_RDS(GET_MR_FOR_DEST);
SAME(RDS_ABI_SO_TRANSPORT, SO_RDS_TRANSPORT);
SAME(RDS_ABI_SO_MSG_RXPATH_LATENCY, SO_RDS_MSG_RXPATH_LATENCY);
NUMBER(SO_TIMESTAMP_OLD);
NUMBER(SO_TIMESTAMP_NEW);
NUMBER_RDS(TRANS_IB);
NUMBER_RDS(TRANS_GAP);
NUMBER_RDS(TRANS_TCP);
NUMBER_RDS(TRANS_COUNT);
NUMBER_RDS(TRANS_NONE);
SAME(RDS_ABI_SIOCRDSSETTOS, SIOCRDSSETTOS);
SAME(RDS_ABI_SIOCRDSGETTOS, SIOCRDSGETTOS);
NUMBER_RDS(CMSG_RDMA_ARGS);
NUMBER_RDS(CMSG_RDMA_DEST);
NUMBER_RDS(CMSG_RDMA_MAP);
NUMBER_RDS(CMSG_RDMA_STATUS);
NUMBER_RDS(CMSG_CONG_UPDATE);
NUMBER_RDS(CMSG_ATOMIC_FADD);
NUMBER_RDS(CMSG_ATOMIC_CSWP);
NUMBER_RDS(CMSG_MASKED_ATOMIC_FADD);
NUMBER_RDS(CMSG_MASKED_ATOMIC_CSWP);
NUMBER_RDS(CMSG_RXPATH_LATENCY);
NUMBER_RDS(CMSG_ZCOPY_COOKIE);
NUMBER_RDS(CMSG_ZCOPY_COMPLETION);
NUMBER_RDS(RECV_LENGTHS);
NUMBER_RDS(CMSG_LENGTHS);
NUMBER_RDS(MOST_LENGTHS);
NUMBER_RDS(CONG_MONITOR_SIZE);
NUMBER_RDS(INFO_FIRST);
NUMBER_RDS(INFO_COUNTERS);
NUMBER_RDS(INFO_CONNECTIONS);
NUMBER_RDS(INFO_SEND_MESSAGES);
NUMBER_RDS(INFO_RETRANS_MESSAGES);
NUMBER_RDS(INFO_RECV_MESSAGES);
NUMBER_RDS(INFO_SOCKETS);
NUMBER_RDS(INFO_TCP_SOCKETS);
NUMBER_RDS(INFO_IB_CONNECTIONS);
NUMBER_RDS(INFO_CONNECTION_STATS);
NUMBER_RDS(INFO_IWARP_CONNECTIONS);
SAME(RDS_ABI_INFO6_CONNECTIONS, RDS6_INFO_CONNECTIONS);
SAME(RDS_ABI_INFO6_SEND_MESSAGES, RDS6_INFO_SEND_MESSAGES);
SAME(RDS_ABI_INFO6_RETRANS_MESSAGES, RDS6_INFO_RETRANS_MESSAGES);
SAME(RDS_ABI_INFO6_RECV_MESSAGES, RDS6_INFO_RECV_MESSAGES);
SAME(RDS_ABI_INFO6_SOCKETS, RDS6_INFO_SOCKETS);
SAME(RDS_ABI_INFO6_TCP_SOCKETS, RDS6_INFO_TCP_SOCKETS);
SAME(RDS_ABI_INFO6_IB_CONNECTIONS, RDS6_INFO_IB_CONNECTIONS);
NUMBER_RDS(INFO_LAST);

SIZE(rds_abi_info_counter, rds_info_counter);
FIELD(rds_abi_info_counter, rds_info_counter, name);
FIELD(rds_abi_info_counter, rds_info_counter, value);

NUMBER_RDS(INFO_CONNECTION_FLAG_SENDING);
NUMBER_RDS(INFO_CONNECTION_FLAG_CONNECTING);
NUMBER_RDS(INFO_CONNECTION_FLAG_CONNECTED);
SAME(RDS_ABI_TRANSNAMSIZ, TRANSNAMSIZ);

SIZE(rds_abi_info_connection, rds_info_connection);
FIELD(rds_abi_info_connection, rds_info_connection, next_tx_seq);
FIELD(rds_abi_info_connection, rds_info_connection, next_rx_seq);
FIELD(rds_abi_info_connection, rds_info_connection, laddr);
FIELD(rds_abi_info_connection, rds_info_connection, faddr);
FIELD(rds_abi_info_connection, rds_info_connection, transport);
FIELD(rds_abi_info_connection, rds_info_connection, flags);
FIELD(rds_abi_info_connection, rds_info_connection, tos);

SIZE(rds_abi_info6_connection, rds6_info_connection);
FIELD(rds_abi_info6_connection, rds6_info_connection, next_tx_seq);
FIELD(rds_abi_info6_connection, rds6_info_connection, next_rx_seq);
FIELD(rds_abi_info6_connection, rds6_info_connection, laddr);
FIELD(rds_abi_info6_connection, rds6_info_connection, faddr);
FIELD(rds_abi_info6_connection, rds6_info_connection, transport);
FIELD(rds_abi_info6_connection, rds6_info_connection, flags);

NUMBER_RDS(INFO_MESSAGE_FLAG_ACK);
NUMBER_RDS(INFO_MESSAGE_FLAG_FAST_ACK);

SIZE(rds_abi_info_message, rds_info_message);
FIELD(rds_abi_info_message, rds_info_message, seq);
FIELD(rds_abi_info_message, rds_info_message, len);
FIELD(rds_abi_info_message, rds_info_message, laddr);
FIELD(rds_abi_info_message, rds_info_message, faddr);
FIELD(rds_abi_info_message, rds_info_message, lport);
FIELD(rds_abi_info_message, rds_info_message, fport);
FIELD(rds_abi_info_message, rds_info_message, flags);
FIELD(rds_abi_info_message, rds_info_message, tos);

SIZE(rds_abi_info6_message, rds6_info_message);
FIELD(rds_abi_info6_message, rds6_info_message, seq);
FIELD(rds_abi_info6_message, rds6_info_message, len);
FIELD(rds_abi_info6_message, rds6_info_message, laddr);
FIELD(rds_abi_info6_message, rds6_info_message, faddr);
FIELD(rds_abi_info6_message, rds6_info_message, lport);
FIELD(rds_abi_info6_message, rds6_info_message, fport);
FIELD(rds_abi_info6_message, rds6_info_message, flags);
FIELD(rds_abi_info6_message, rds6_info_message, tos);

SIZE(rds_abi_info_socket, rds_info_socket);
FIELD(rds_abi_info_socket, rds_info_socket, sndbuf);
FIELD(rds_abi_info_socket, rds_info_socket, bound_addr);
FIELD(rds_abi_info_socket, rds_info_socket, connected_addr);
FIELD(rds_abi_info_socket, rds_info_socket, bound_port);
FIELD(rds_abi_info_socket, rds_info_socket, connected_port);
FIELD(rds_abi_info_socket, rds_info_socket, rcvbuf);
FIELD(rds_abi_info_socket, rds_info_socket, inum);

SIZE(rds_abi_info6_socket, rds6_info_socket);
FIELD(rds_abi_info6_socket, rds6_info_socket, sndbuf);
FIELD(rds_abi_info6_socket, rds6_info_socket, bound_addr);
FIELD(rds_abi_info6_socket, rds6_info_socket, connected_addr);
FIELD(rds_abi_info6_socket, rds6_info_socket, bound_port);
FIELD(rds_abi_info6_socket, rds6_info_socket, connected_port);
FIELD(rds_abi_info6_socket, rds6_info_socket, rcvbuf);
FIELD(rds_abi_info6_socket, rds6_info_socket, inum);

SIZE(rds_abi_info_tcp_socket, rds_info_tcp_socket);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, local_addr);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, local_port);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, peer_addr);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, peer_port);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, hdr_rem);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, data_rem);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, last_sent_nxt);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, last_expected_una);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, last_seen_una);
FIELD(rds_abi_info_tcp_socket, rds_info_tcp_socket, tos);

SIZE(rds_abi_info6_tcp_socket, rds6_info_tcp_socket);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, local_addr);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, local_port);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, peer_addr);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, peer_port);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, hdr_rem);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, data_rem);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, last_sent_nxt);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, last_expected_una);
FIELD(rds_abi_info6_tcp_socket, rds6_info_tcp_socket, last_seen_una);

NUMBER_RDS(IB_GID_LEN);

SIZE(rds_abi_info_rdma_connection, rds_info_rdma_connection);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, src_addr);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, dst_addr);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, src_gid);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, dst_gid);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, max_send_wr);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, max_recv_wr);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, max_send_sge);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, rdma_mr_max);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, rdma_mr_size);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, tos);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, sl);
FIELD(rds_abi_info_rdma_connection, rds_info_rdma_connection, cache_allocs);

SIZE(rds_abi_info6_rdma_connection, rds6_info_rdma_connection);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, src_addr);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, dst_addr);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, src_gid);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, dst_gid);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, max_send_wr);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, max_recv_wr);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, max_send_sge);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, rdma_mr_max);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, rdma_mr_size);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, tos);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, sl);
FIELD(rds_abi_info6_rdma_connection, rds6_info_rdma_connection, cache_allocs);

SAME(RDS_ABI_RX_HDR_TO_DGRAM_START, RDS_MSG_RX_HDR_TO_DGRAM_START);
SAME(RDS_ABI_RX_DGRAM_REASSEMBLE, RDS_MSG_RX_DGRAM_REASSEMBLE);
SAME(RDS_ABI_RX_DGRAM_DELIVERED, RDS_MSG_RX_DGRAM_DELIVERED);
SAME(RDS_ABI_RX_TRACE_MAX, RDS_MSG_RX_DGRAM_TRACE_MAX);

SIZE(rds_abi_rx_trace_so, rds_rx_trace_so);
FIELD(rds_abi_rx_trace_so, rds_rx_trace_so, rx_traces);
FIELD(rds_abi_rx_trace_so, rds_rx_trace_so, rx_trace_pos);

SIZE(rds_abi_cmsg_rx_trace, rds_cmsg_rx_trace);
FIELD(rds_abi_cmsg_rx_trace, rds_cmsg_rx_trace, rx_traces);
FIELD(rds_abi_cmsg_rx_trace, rds_cmsg_rx_trace, rx_trace_pos);
FIELD(rds_abi_cmsg_rx_trace, rds_cmsg_rx_trace, rx_trace);

SIZE(rds_abi_iovec, rds_iovec);
FIELD(rds_abi_iovec, rds_iovec, addr);
FIELD(rds_abi_iovec, rds_iovec, bytes);

SIZE(rds_abi_get_mr_args, rds_get_mr_args);
FIELD(rds_abi_get_mr_args, rds_get_mr_args, vec);
FIELD(rds_abi_get_mr_args, rds_get_mr_args, cookie_addr);
FIELD(rds_abi_get_mr_args, rds_get_mr_args, flags);

SIZE(rds_abi_get_mr_for_dest_args, rds_get_mr_for_dest_args);
FIELD(rds_abi_get_mr_for_dest_args, rds_get_mr_for_dest_args, dest_addr);
FIELD(rds_abi_get_mr_for_dest_args, rds_get_mr_for_dest_args, vec);
FIELD(rds_abi_get_mr_for_dest_args, rds_get_mr_for_dest_args, cookie_addr);
FIELD(rds_abi_get_mr_for_dest_args, rds_get_mr_for_dest_args, flags);

SIZE(rds_abi_free_mr_args, rds_free_mr_args);
FIELD(rds_abi_free_mr_args, rds_free_mr_args, cookie);
FIELD(rds_abi_free_mr_args, rds_free_mr_args, flags);

SIZE(rds_abi_rdma_args, rds_rdma_args);
FIELD(rds_abi_rdma_args, rds_rdma_args, cookie);
FIELD(rds_abi_rdma_args, rds_rdma_args, remote_vec);
FIELD(rds_abi_rdma_args, rds_rdma_args, local_vec_addr);
FIELD(rds_abi_rdma_args, rds_rdma_args, nr_local);
FIELD(rds_abi_rdma_args, rds_rdma_args, flags);
FIELD(rds_abi_rdma_args, rds_rdma_args, user_token);

SIZE(rds_abi_atomic_args, rds_atomic_args);
FIELD(rds_abi_atomic_args, rds_atomic_args, cookie);
FIELD(rds_abi_atomic_args, rds_atomic_args, local_addr);
FIELD(rds_abi_atomic_args, rds_atomic_args, remote_addr);
SAME(offsetof(struct rds_abi_atomic_args, operand[0]), offsetof(struct rds_atomic_args, cswp.compare));
SAME(offsetof(struct rds_abi_atomic_args, operand[1]), offsetof(struct rds_atomic_args, cswp.swap));
SAME(offsetof(struct rds_abi_atomic_args, operand[0]), offsetof(struct rds_atomic_args, fadd.add));
FIELD_AS(rds_abi_atomic_args, operand, rds_atomic_args, m_cswp);
SAME(offsetof(struct rds_abi_atomic_args, operand[2]), offsetof(struct rds_atomic_args, m_cswp.compare_mask));
SAME(offsetof(struct rds_abi_atomic_args, operand[3]), offsetof(struct rds_atomic_args, m_cswp.swap_mask));
SAME(offsetof(struct rds_abi_atomic_args, operand[0]), offsetof(struct rds_atomic_args, m_fadd.add));
SAME(offsetof(struct rds_abi_atomic_args, operand[1]), offsetof(struct rds_atomic_args, m_fadd.nocarry_mask));
FIELD(rds_abi_atomic_args, rds_atomic_args, flags);
FIELD(rds_abi_atomic_args, rds_atomic_args, user_token);

SIZE(rds_abi_rdma_notify, rds_rdma_notify);
FIELD(rds_abi_rdma_notify, rds_rdma_notify, user_token);
FIELD(rds_abi_rdma_notify, rds_rdma_notify, status);

NUMBER_RDS(RDMA_SUCCESS);
NUMBER_RDS(RDMA_REMOTE_ERROR);
NUMBER_RDS(RDMA_CANCELED);
NUMBER_RDS(RDMA_DROPPED);
NUMBER_RDS(RDMA_OTHER_ERROR);
NUMBER_RDS(MAX_ZCOOKIES);

SIZE(rds_abi_zcopy_cookies, rds_zcopy_cookies);
FIELD(rds_abi_zcopy_cookies, rds_zcopy_cookies, num);
FIELD(rds_abi_zcopy_cookies, rds_zcopy_cookies, cookies);

NUMBER_RDS(RDMA_READWRITE);
NUMBER_RDS(RDMA_FENCE);
NUMBER_RDS(RDMA_INVALIDATE);
NUMBER_RDS(RDMA_USE_ONCE);
NUMBER_RDS(RDMA_DONTWAIT);
NUMBER_RDS(RDMA_NOTIFY_ME);
NUMBER_RDS(RDMA_SILENT);

/* kapi promises Linux's numbers too. */
ERRNO(EPERM);
ERRNO(ENOENT);
ERRNO(EINTR);
ERRNO(EIO);
ERRNO(EAGAIN);
ERRNO(ENOMEM);
ERRNO(EACCES);
ERRNO(EFAULT);
ERRNO(EBUSY);
ERRNO(EEXIST);
ERRNO(ENODEV);
ERRNO(EINVAL);
ERRNO(ENOTTY);
ERRNO(ENOSPC);
ERRNO(EPIPE);
ERRNO(ERANGE);
ERRNO(EPROTO);
ERRNO(EOVERFLOW);
ERRNO(ENOTSOCK);
ERRNO(EDESTADDRREQ);
ERRNO(EMSGSIZE);
ERRNO(EPROTOTYPE);
ERRNO(ENOPROTOOPT);
ERRNO(EPROTONOSUPPORT);
ERRNO(ESOCKTNOSUPPORT);
ERRNO(EOPNOTSUPP);
ERRNO(EAFNOSUPPORT);
ERRNO(EADDRINUSE);
ERRNO(EADDRNOTAVAIL);
ERRNO(ENETDOWN);
ERRNO(ENETUNREACH);
ERRNO(ECONNABORTED);
ERRNO(ECONNRESET);
ERRNO(ENOBUFS);
ERRNO(EISCONN);
ERRNO(ENOTCONN);
ERRNO(ETIMEDOUT);
ERRNO(ECONNREFUSED);
ERRNO(EHOSTUNREACH);
ERRNO(EALREADY);
ERRNO(EINPROGRESS);
ERRNO(ECANCELED);
ERRNO(ERESTARTSYS);
ERRNO(ENOIOCTLCMD);

POLL(IN);
POLL(OUT);
POLL(ERR);
POLL(HUP);
POLL(RDNORM);
POLL(RDBAND);
POLL(WRNORM);
POLL(WRBAND);
