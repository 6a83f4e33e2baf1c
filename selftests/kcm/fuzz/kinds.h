/* SPDX-License-Identifier: GPL-2.0 */
/* The kinds of calls that are counted. */
#ifndef SELFTESTS_KCM_KINDS_H
#define SELFTESTS_KCM_KINDS_H

#define FUZZ_KINDS(X)                                     \
	X(SOCKET, "socket", MUST)                         \
	X(SOCKET_OTHER, "socket, other type", NEVER)      \
	X(SOCKETPAIR, "socketpair", NEVER)                \
	X(CLONE, "SIOCKCMCLONE", MUST)                    \
	X(CLONE_BAD, "SIOCKCMCLONE, bad memory", NEVER)   \
	X(CLOSE, "close", MUST)                           \
	X(DUP, "dup2", MUST)                              \
	X(FORK, "fork", MUST)                             \
	X(ATTACH, "SIOCKCMATTACH", MUST)                  \
	X(ATTACH_ANY, "SIOCKCMATTACH, any program", MUST) \
	X(ATTACH_BAD, "SIOCKCMATTACH, bad argument", NEVER) \
	X(UNATTACH, "SIOCKCMUNATTACH", MUST)              \
	X(UNATTACH_BAD, "SIOCKCMUNATTACH, bad argument", NEVER) \
	X(IOCTL_OTHER, "another ioctl", MAY)              \
	X(SENDMSG, "sendmsg", MUST)                       \
	X(SENDMMSG, "sendmmsg", MUST)                     \
	X(SEND_WAITING, "send, blocking", MUST)           \
	X(SEND_BATCH, "send, batched", MUST)              \
	X(SEND_PARTS, "send, in parts", MUST)             \
	X(SEND_NOTHING, "send, nothing", MUST)            \
	X(SEND_FLOOD, "send, until all is full", MUST)    \
	X(SEND_REPLY, "send, to a connection", MUST)      \
	X(SEND_CONTROL, "send, any control", MUST)        \
	X(SEND_LENGTHS, "send, many by lengths", MUST)    \
	X(SEND_FLAGS, "send, any flags", MUST)            \
	X(SEND_SOURCE, "send, bad memory", MUST)          \
	X(SEND_FAULT, "send, memory that faults", NEVER)  \
	X(SEND_HUGE, "send, huge", NEVER)                 \
	X(SEND_HEADER, "send, bad header", NEVER)         \
	X(WRITE, "write, writev", MUST)                   \
	X(SPLICE_TO, "splice to", MUST)                   \
	X(SENDFILE, "sendfile", MUST)                     \
	X(RECVMSG, "recvmsg", MUST)                       \
	X(RECVMMSG, "recvmmsg", MUST)                     \
	X(RECV_WAITING, "receive, blocking", MUST)        \
	X(RECV_PEEK, "receive, peek", MUST)               \
	X(RECV_FLAGS, "receive, any flags", MUST)         \
	X(RECV_SINK, "receive, bad memory", MUST)         \
	X(RECV_HEADER, "receive, bad header", NEVER)      \
	X(READ, "read, readv", MUST)                      \
	X(SPLICE_FROM, "splice from", MUST)               \
	X(DISABLE, "KCM_RECV_DISABLE", MUST)              \
	X(ERRORS, "KCM_ERRORS", MUST)                     \
	X(RECV_CONNECTION, "KCM_RECV_CONNECTION", MUST)   \
	X(RECV_LENGTHS, "KCM_RECV_LENGTHS", MUST)         \
	X(MAX_MESSAGE, "KCM_MAX_MESSAGE", MUST)           \
	X(STEERING, "KCM_STEERING", MUST)                 \
	X(SET_OTHER, "another option of SOL_KCM", NEVER)  \
	X(SET_BAD, "set option, bad argument", MAY)       \
	X(SET_LEVEL, "set option, other level", MAY)      \
	X(SET_SOCKET, "set option of SOL_SOCKET", MUST)   \
	X(GET_OPTION, "get option of SOL_KCM", MUST)      \
	X(GET_STATS, "get KCM_STATS", MUST)               \
	X(GET_OTHER, "get another of SOL_KCM", NEVER)     \
	X(GET_SOCKET, "get option of SOL_SOCKET", MUST)   \
	X(POLL, "poll", MUST)                             \
	X(EPOLL_CTL, "epoll_ctl", MUST)                   \
	X(EPOLL_WAIT, "epoll_wait", MUST)                 \
	X(FCNTL, "fcntl", MUST)                           \
	X(BIND, "bind", NEVER)                            \
	X(CONNECT, "connect", NEVER)                      \
	X(LISTEN, "listen", NEVER)                        \
	X(ACCEPT, "accept", NEVER)                        \
	X(NAMES, "getsockname, getpeername", NEVER)       \
	X(SHUTDOWN, "shutdown", NEVER)                    \
	X(MMAP, "mmap", NEVER)                            \
	X(PROC, "/proc/net/kcm, kcm_stats", MUST)         \
	X(TCP_OPTION, "TCP: set option", MUST)            \
	X(TCP_ULP, "TCP: TCP_ULP", MAY)                   \
	X(TCP_WRITE, "TCP: write", MUST)                  \
	X(TCP_READ, "TCP: read", MUST)                    \
	X(TCP_SPLICE, "TCP: splice from", MAY)            \
	X(TCP_IOCTL, "TCP: ioctl", MUST)                  \
	X(TCP_SHUTDOWN, "TCP: shutdown", MUST)            \
	X(TCP_DISCONNECT, "TCP: connect to nobody", MUST) \
	X(TCP_LISTEN, "TCP: listen", MAY)                 \
	X(PEER_WRITE, "peer: frames", MUST)               \
	X(PEER_NONSENSE, "peer: nonsense", MUST)          \
	X(PEER_READ, "peer: read", MUST)                  \
	X(PEER_END, "peer: ends", MUST)                   \
	X(NAMESPACE, "namespaces made, ended", MUST)      \
	X(GOT_WHOLE, "(whole messages received)", MUST)   \
	X(GOT_PIECE, "(pieces of messages received)", MUST) \
	X(GOT_CUT, "(got a cut message)", MUST)           \
	X(GOT_CONNECTION, "(got a connection's id)", MUST) \
	X(GOT_LENGTHS, "(got the lengths of several)", MUST) \
	X(GOT_STATS, "(got connections' counters)", MUST) \
	X(GOT_SENT, "(whole messages at peers)", MUST)

#define FUZZ_ENUM(id, name, expected) K_##id,
enum { FUZZ_KINDS(FUZZ_ENUM) KINDS };
#undef FUZZ_ENUM

#endif
