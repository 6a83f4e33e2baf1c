/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What hawser's KCM offers beyond <linux/kcm.h>: socket options and a control message of level SOL_KCM.
 * The kernel's own KCM answers ENOPROTOOPT to the options. Documentation/networking/kcm.rst explains them.
 */
#ifndef HAWSER_UAPI_KCM_H
#define HAWSER_UAPI_KCM_H

#include <linux/types.h>

/* Socket options; all but KCM_STATS and KCM_ATTACHED are an int or __u32 and can be read back. */
#define KCM_ERRORS 16          /* 1: the end of each connection is reported here (SO_ERROR), not of the last one only */
#define KCM_RECV_CONNECTION 17 /* 1: recvmsg() returns the connection of a message in a KCM_CONNECTION control message */
#define KCM_MAX_MESSAGE 18     /* largest message of what this socket attaches from now on; 0: SO_RCVBUF, up to 256 MiB */
#define KCM_STEERING 19        /* of the multiplexor: which of its sockets receives, enum kcm_steering */
#define KCM_STATS 20           /* getsockopt: an array of struct kcm_connection_stats */
#define KCM_ATTACHED 21        /* getsockopt: struct kcm_attached */
#define KCM_RECV_LENGTHS 22    /* 1: recvmsg() returns as many whole messages as it has room for, with KCM_LENGTHS */

enum kcm_steering {
	KCM_STEER_ROUND_ROBIN = 0, /* a socket that has nothing to read, in turn */
	KCM_STEER_LEAST_LOADED = 1, /* the socket with the fewest bytes to read */
	KCM_STEER_CPU = 2,          /* the socket that last received on the CPU on which the message arrives */
};

/*
 * Control message: received, the connection that the message came from; given to sendmsg(), the connection that the
 * message has to take. A message for a connection that is no longer attached is refused with ENOTCONN.
 */
#define KCM_CONNECTION 1
struct kcm_connection {
	__u64 id; /* never used twice by a multiplexor */
};

/*
 * Control message, an array of __u32: the lengths of messages that lie one behind the other in the buffer.
 * Received, when KCM_RECV_LENGTHS is 1: there is one for each run of messages of one connection that were received together,
 * behind its KCM_CONNECTION if KCM_RECV_CONNECTION is 1. The sum of all lengths is what recvmsg() returned. How many messages
 * are returned is limited by the room for lengths, too; a run has at most 64 messages, and a call at most 64 runs. A message
 * that is longer than the buffer is returned alone, as without the option: without MSG_EOR its rest follows, and the length is
 * that of the part.
 * Given to sendmsg(): each is a message of its own, and whole. Their sum has to be the number of bytes (EINVAL), and no message
 * may have been begun before (EINVAL). sendmsg() returns the bytes of those that were taken, at least one or an error.
 */
#define KCM_LENGTHS 2

/* Given to getsockopt() with the descriptor of an attached TCP socket, comes back with the id of its connection. */
struct kcm_attached {
	__s32 fd;
	__u32 reserved; /* 0 */
	__u64 id;
};

enum kcm_connection_state {
	KCM_CONN_RX_STOPPED = 1, /* nothing more is received: an error, or the peer has closed */
	KCM_CONN_TX_STOPPED = 2, /* nothing more is sent */
	KCM_CONN_RESERVED = 4,   /* a socket is sending on it */
	KCM_CONN_PAUSED = 8,     /* received data wait for a socket with room */
};

struct kcm_connection_stats {
	__u64 id;
	__u64 rx_msgs, rx_bytes; /* delivered to sockets */
	__u64 tx_msgs, tx_bytes; /* handed to TCP */
	__u64 tx_reserved;       /* times that a socket took it to send */
	__u32 rx_partial;        /* bytes of a message that is not whole yet */
	__u32 state;             /* enum kcm_connection_state */
	__s32 error;             /* errno that ended it, or 0 */
	__u16 local_port, remote_port;
	__u8 local_addr[16], remote_addr[16]; /* network order; IPv4 as ::ffff:a.b.c.d */
};

#endif
