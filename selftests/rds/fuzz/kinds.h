/* SPDX-License-Identifier: GPL-2.0 */
/* The kinds of calls that are counted. */
#ifndef SELFTESTS_RDS_KINDS_H
#define SELFTESTS_RDS_KINDS_H

#define FUZZ_KINDS(X)                                  \
	X(SOCKET, "socket", MUST)                      \
	X(SOCKET_OTHER, "socket, other type", NEVER)   \
	X(SOCKETPAIR, "socketpair", NEVER)             \
	X(BIND, "bind", MUST)                          \
	X(BIND_ODD, "bind, odd address", MAY)          \
	X(CONNECT, "connect", MUST)                    \
	X(CONNECT_ODD, "connect, odd address", MAY)    \
	X(GETSOCKNAME, "getsockname", MUST)            \
	X(GETPEERNAME, "getpeername", MUST)            \
	X(CLOSE, "close", MUST)                        \
	X(DUP, "dup2", MUST)                           \
	X(SENDTO, "sendto", MUST)                      \
	X(SENDMSG, "sendmsg", MUST)                    \
	X(SENDMMSG, "sendmmsg", MUST)                  \
	X(SEND_FLOOD, "send, until all is full", MUST) \
	X(SEND_PING, "send to port 0", MUST)           \
	X(SEND_WAITING, "send, blocking", MUST)        \
	X(SEND_ZEROCOPY, "send, zerocopy", MUST)       \
	X(SEND_LENGTHS, "send, many messages", MUST)   \
	X(SEND_CONTROL, "send, any control", MUST)     \
	X(SEND_RDMA, "send, RDMA control", NEVER)      \
	X(SEND_FLAGS, "send, any flags", MUST)         \
	X(SEND_SOURCE, "send, bad memory", MUST)       \
	X(SEND_HUGE, "send, huge", NEVER)              \
	X(SEND_HEADER, "send, bad header", NEVER)      \
	X(SEND_ODD, "send, odd address", MAY)          \
	X(WRITE, "write, writev", NEVER)               \
	X(SPLICE_TO, "splice to", MUST)                \
	X(RECVFROM, "recvfrom", MUST)                  \
	X(RECVMSG, "recvmsg", MUST)                    \
	X(RECVMMSG, "recvmmsg", MUST)                  \
	X(RECV_WAITING, "receive, blocking", MUST)     \
	X(RECV_PEEK, "receive, peek", MUST)            \
	X(RECV_FLAGS, "receive, any flags", MUST)      \
	X(RECV_SINK, "receive, bad memory", MUST)      \
	X(RECV_HEADER, "receive, bad header", NEVER)   \
	X(RECV_ERRQUEUE, "receive, error queue", MAY)  \
	X(READ, "read, readv", MUST)                   \
	X(SPLICE_FROM, "splice from", MAY)             \
	X(CANCEL, "RDS_CANCEL_SENT_TO", MUST)          \
	X(GET_MR, "RDS_GET_MR", NEVER)                 \
	X(GET_MR_DEST, "RDS_GET_MR_FOR_DEST", NEVER)   \
	X(FREE_MR, "RDS_FREE_MR", NEVER)               \
	X(RECVERR, "RDS_RECVERR", MUST)                \
	X(MONITOR, "RDS_CONG_MONITOR", MUST)           \
	X(RECV_LENGTHS, "RDS_RECV_LENGTHS", MUST)      \
	X(TRANSPORT, "SO_RDS_TRANSPORT", MUST)         \
	X(RXPATH, "SO_RDS_MSG_RXPATH_LATENCY", MUST)   \
	X(STAMPS, "timestamps at SOL_RDS", MUST)       \
	X(SET_OTHER, "another option of SOL_RDS", NEVER) \
	X(SET_BAD, "set option, bad argument", MAY)    \
	X(SET_LEVEL, "set option, other level", MAY)   \
	X(SET_SOCKET, "set option of SOL_SOCKET", MUST) \
	X(GET_RECVERR, "get RDS_RECVERR", MUST)        \
	X(GET_TRANSPORT, "get SO_RDS_TRANSPORT", MUST) \
	X(GET_OTHER, "get another of SOL_RDS", NEVER)  \
	X(GET_SOCKET, "get option of SOL_SOCKET", MUST) \
	X(INFO_COUNTERS, "RDS_INFO_COUNTERS", MUST)    \
	X(INFO_CONNECTIONS, "RDS_INFO_CONNECTIONS", MUST) \
	X(INFO_2, "RDS_INFO 10002", NEVER)             \
	X(INFO_SEND, "RDS_INFO_SEND_MESSAGES", MUST)   \
	X(INFO_RETRANS, "RDS_INFO_RETRANS_MESSAGES", MUST) \
	X(INFO_RECV, "RDS_INFO_RECV_MESSAGES", MUST)   \
	X(INFO_SOCKETS, "RDS_INFO_SOCKETS", MUST)      \
	X(INFO_TCP, "RDS_INFO_TCP_SOCKETS", MUST)      \
	X(INFO_IB, "RDS_INFO_IB_CONNECTIONS", NEVER)   \
	X(INFO_STATS, "RDS_INFO_CONNECTION_STATS", NEVER) \
	X(INFO_IWARP, "RDS_INFO_IWARP_CONNECTIONS", NEVER) \
	X(INFO6_CONNECTIONS, "RDS6_INFO_CONNECTIONS", MUST) \
	X(INFO6_SEND, "RDS6_INFO_SEND_MESSAGES", MUST) \
	X(INFO6_RETRANS, "RDS6_INFO_RETRANS_MESSAGES", MUST) \
	X(INFO6_RECV, "RDS6_INFO_RECV_MESSAGES", MUST) \
	X(INFO6_SOCKETS, "RDS6_INFO_SOCKETS", MUST)    \
	X(INFO6_TCP, "RDS6_INFO_TCP_SOCKETS", MUST)    \
	X(INFO6_IB, "RDS6_INFO_IB_CONNECTIONS", NEVER) \
	X(IOCTL_SETTOS, "SIOCRDSSETTOS", MUST)         \
	X(IOCTL_GETTOS, "SIOCRDSGETTOS", MUST)         \
	X(IOCTL_OTHER, "another ioctl", MAY)           \
	X(POLL, "poll", MUST)                          \
	X(EPOLL_CTL, "epoll_ctl", MUST)                \
	X(EPOLL_WAIT, "epoll_wait", MUST)              \
	X(LISTEN, "listen", NEVER)                     \
	X(ACCEPT, "accept", NEVER)                     \
	X(SHUTDOWN, "shutdown", NEVER)                 \
	X(MMAP, "mmap", NEVER)                         \
	X(FCNTL, "fcntl", MUST)                        \
	X(FORK, "fork", MUST)                          \
	X(STRANGER, "TCP to the RDS port", MUST)       \
	X(SYSCTL, "sysctl", MUST)                      \
	X(SYSCTL_BAD, "sysctl, bad value", NEVER)      \
	X(ADDRESS, "addresses removed, added", MUST)   \
	X(LINK, "links down, up", MUST)                \
	X(NAMESPACE, "namespaces made, ended", MUST)   \
	X(RESET, "TCP connections destroyed", MAY)     \
	X(GOT_FREED, "(got freed ports)", MUST)        \
	X(GOT_COOKIES, "(got zerocopy cookies)", MUST) \
	X(GOT_TRACE, "(got latencies)", MUST)          \
	X(GOT_TIME, "(got times)", MUST)               \
	X(GOT_CUT, "(got a cut message)", MUST)        \
	X(GOT_CTRUNC, "(got cut control data)", MUST)  \
	X(GOT_RUN, "(got many messages)", MUST)        \
	X(GOT_CONTENT, "(content checked)", MUST)

#define FUZZ_ENUM(id, name, expected) K_##id,
enum { FUZZ_KINDS(FUZZ_ENUM) KINDS };
#undef FUZZ_ENUM

#endif
