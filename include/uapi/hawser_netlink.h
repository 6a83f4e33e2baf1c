/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The generic netlink family of hawser: what its modules report to programs. Documentation/netlink/specs/hawser.yaml
 * describes each attribute. Numbers are of type "uint": four bytes, or eight if the value needs them; those with names have
 * four. Addresses are four bytes (IPv4) or sixteen.
 */
#ifndef _UAPI_HAWSER_NETLINK_H
#define _UAPI_HAWSER_NETLINK_H

#define HAWSER_FAMILY_NAME "hawser"
#define HAWSER_FAMILY_VERSION 1
#define HAWSER_MCGRP_EVENTS "events"

/* GET: to be sent with NLM_F_DUMP; the objects of the sender's namespace come back. CHANGED: an event, sent to the group. */
enum hawser_command {
	HAWSER_CMD_RDS_CONNECTION_GET = 1,
	HAWSER_CMD_RDS_PATH_CHANGED = 2,
	HAWSER_CMD_RDS_SOCKET_GET = 3,
	HAWSER_CMD_KCM_CONNECTION_GET = 4,
	HAWSER_CMD_KCM_CONNECTION_CHANGED = 5,
	HAWSER_CMD_RDS_COUNTER_GET = 6,
	HAWSER_CMD_KCM_MUX_GET = 7,
	HAWSER_CMD_RDS_QUEUE_GET = 8, /* a request may have HAWSER_RDS_QUEUE_KIND: queues of that kind only */
};

enum hawser_rds_connection {
	HAWSER_RDS_CONNECTION_LOCAL = 1,
	HAWSER_RDS_CONNECTION_REMOTE = 2,
	HAWSER_RDS_CONNECTION_TRANSPORT = 3, /* "tcp", "infiniband", "loopback" */
	HAWSER_RDS_CONNECTION_TOS = 4,
	HAWSER_RDS_CONNECTION_PEER = 5,      /* enum hawser_rds_peer */
	HAWSER_RDS_CONNECTION_PATH = 6,      /* one for each, and for each that has a stream; contains enum hawser_rds_path */
	HAWSER_RDS_CONNECTION_INTERFACE = 7, /* number of it, if the addresses are link-local */
};

enum hawser_rds_path {
	HAWSER_RDS_PATH_INDEX = 1,
	HAWSER_RDS_PATH_STATE = 2,    /* enum hawser_rds_state */
	HAWSER_RDS_PATH_REASON = 3,   /* enum hawser_rds_reason; if down, why the last stream ended */
	HAWSER_RDS_PATH_AGE_MS = 4,   /* of the state */
	HAWSER_RDS_PATH_FROM = 5,     /* the state before, in an event */
	HAWSER_RDS_PATH_NEXT_TX = 6,  /* number of the next message */
	HAWSER_RDS_PATH_NEXT_RX = 7,
	HAWSER_RDS_PATH_TX_BYTES = 8, /* that the transport took, headers and retransmissions included */
	HAWSER_RDS_PATH_RX_BYTES = 9, /* of messages that arrived, likewise */
	HAWSER_RDS_PATH_QUEUED = 10,  /* messages that are not acknowledged, sent or not */
	HAWSER_RDS_PATH_DROPS = 11,   /* how often an established stream ended */
	HAWSER_RDS_PATH_RETRANSMITS = 12, /* messages that were sent again */
	HAWSER_RDS_PATH_RTT_US = 13,  /* smoothed round-trip time of TCP */
	HAWSER_RDS_PATH_LATENCY = 14, /* array of __u64, see below */
	HAWSER_RDS_PATH_SENDING = 15, /* 1: at the moment */
	HAWSER_RDS_PATH_TCP = 16,     /* over TCP, with a stream; contains enum hawser_rds_tcp */
	HAWSER_RDS_PATH_RDMA = 17,    /* over RDMA; contains enum hawser_rds_rdma */
};

/* The TCP socket of a path, as RDS_INFO_TCP_SOCKETS shows it. Its addresses are those of the connection. */
enum hawser_rds_tcp {
	HAWSER_RDS_TCP_LOCAL_PORT = 1,
	HAWSER_RDS_TCP_REMOTE_PORT = 2,
	HAWSER_RDS_TCP_HEADER_LEFT = 3,  /* bytes of the message that arrives */
	HAWSER_RDS_TCP_DATA_LEFT = 4,
	HAWSER_RDS_TCP_SENT_NEXT = 5,    /* sequence numbers of TCP: where the data begins that was sent last */
	HAWSER_RDS_TCP_EXPECTED_UNA = 6, /* and ends */
	HAWSER_RDS_TCP_SEEN_UNA = 7,     /* of the last acknowledgement */
};

/* The queues of a path, as RDS_INFO_IB_CONNECTIONS shows them: zeroes while none are up. */
enum hawser_rds_rdma {
	HAWSER_RDS_RDMA_LOCAL_GID = 1, /* 16 bytes */
	HAWSER_RDS_RDMA_REMOTE_GID = 2,
	HAWSER_RDS_RDMA_MAX_SEND_WR = 3, /* requests that the queue has room for */
	HAWSER_RDS_RDMA_MAX_RECV_WR = 4,
	HAWSER_RDS_RDMA_MAX_SEND_SGE = 5, /* pieces of a request */
	HAWSER_RDS_RDMA_MR_MAX = 6, /* memory regions that programs may have at the device */
	HAWSER_RDS_RDMA_MR_SIZE = 7, /* pages of one */
};

/*
 * Of messages that were timed, at most every seventh, how many waited so long for their acknowledgement: less than 1 us, less
 * than 2, less than 4 and so on; the last one of all has those that waited longer. The array ends with the last number that is
 * not 0.
 */
#define HAWSER_RDS_LATENCY_BUCKETS 24

enum hawser_rds_peer {
	HAWSER_RDS_PEER_UNKNOWN = 0,
	HAWSER_RDS_PEER_HAWSER = 1,
	HAWSER_RDS_PEER_FOREIGN = 2,
};

enum hawser_rds_state {
	HAWSER_RDS_DOWN = 0,
	HAWSER_RDS_CONNECTING = 1,
	HAWSER_RDS_UP = 2,
	HAWSER_RDS_CLOSING = 3,
};

enum hawser_rds_reason {
	HAWSER_RDS_WANTED = 0,
	HAWSER_RDS_ESTABLISHED = 1,
	HAWSER_RDS_ACCEPTED = 2,
	HAWSER_RDS_REFUSED = 3,
	HAWSER_RDS_HEARD = 4,
	HAWSER_RDS_LOST = 5,
	HAWSER_RDS_REPLACED = 6,
	HAWSER_RDS_DEAD = 7,
	HAWSER_RDS_UNANSWERED = 8,
	HAWSER_RDS_UNUSED = 9,
	HAWSER_RDS_RENEWED = 10,
	HAWSER_RDS_REMOVED = 11,
	HAWSER_RDS_CLOSED = 12,
};

enum hawser_rds_socket {
	HAWSER_RDS_SOCKET_LOCAL = 1,
	HAWSER_RDS_SOCKET_LOCAL_PORT = 2,
	HAWSER_RDS_SOCKET_REMOTE = 3,      /* if it is connected */
	HAWSER_RDS_SOCKET_REMOTE_PORT = 4,
	HAWSER_RDS_SOCKET_INODE = 5,
	HAWSER_RDS_SOCKET_SEND_BUFFER = 6, /* in bytes, as set, or grown where the program set none */
	HAWSER_RDS_SOCKET_RECEIVE_BUFFER = 7,
	HAWSER_RDS_SOCKET_SENDING = 8,     /* bytes that are not acknowledged */
	HAWSER_RDS_SOCKET_UNREAD = 9,      /* bytes that the program has not received yet */
};

/* A queue that is not empty. A long one comes in several messages, in the order of its contents. */
enum hawser_rds_queue {
	HAWSER_RDS_QUEUE_KIND = 1,      /* enum hawser_rds_queue_kind */
	HAWSER_RDS_QUEUE_LOCAL = 2,
	HAWSER_RDS_QUEUE_REMOTE = 3,    /* this and the next three: not of HAWSER_RDS_RECEIVE */
	HAWSER_RDS_QUEUE_TRANSPORT = 4,
	HAWSER_RDS_QUEUE_TOS = 5,
	HAWSER_RDS_QUEUE_PATH = 6,      /* index of it */
	HAWSER_RDS_QUEUE_MESSAGE = 7,   /* one for each; contains enum hawser_rds_message */
};

enum hawser_rds_queue_kind {
	HAWSER_RDS_RECEIVE = 1,    /* of a socket: received and not yet read */
	HAWSER_RDS_SEND = 2,       /* of a path: not yet sent */
	HAWSER_RDS_RETRANSMIT = 3, /* of a path: sent and not yet acknowledged */
};

enum hawser_rds_message {
	HAWSER_RDS_MESSAGE_SEQUENCE = 1,
	HAWSER_RDS_MESSAGE_BYTES = 2,
	HAWSER_RDS_MESSAGE_LOCAL_PORT = 3,
	HAWSER_RDS_MESSAGE_REMOTE_PORT = 4,
	HAWSER_RDS_MESSAGE_REMOTE = 5, /* of HAWSER_RDS_RECEIVE: the sender's address */
};

/* The counters of RDS_INFO_COUNTERS, in its order. */
enum hawser_rds_counter {
	HAWSER_RDS_COUNTER_NAME = 1,
	HAWSER_RDS_COUNTER_VALUE = 2,
};

enum hawser_kcm_connection {
	HAWSER_KCM_CONNECTION_MUX = 1, /* connections of one multiplexor have the same number */
	HAWSER_KCM_CONNECTION_ID = 2,  /* as KCM_CONNECTION has it */
	HAWSER_KCM_CONNECTION_LOCAL = 3,
	HAWSER_KCM_CONNECTION_LOCAL_PORT = 4,
	HAWSER_KCM_CONNECTION_REMOTE = 5,
	HAWSER_KCM_CONNECTION_REMOTE_PORT = 6,
	HAWSER_KCM_CONNECTION_STATE = 7, /* flags, enum kcm_connection_state */
	HAWSER_KCM_CONNECTION_ERROR = 8, /* that ended it, as SO_ERROR reports it, or 0 */
	HAWSER_KCM_CONNECTION_RX_MESSAGES = 9,
	HAWSER_KCM_CONNECTION_RX_BYTES = 10,
	HAWSER_KCM_CONNECTION_TX_MESSAGES = 11,
	HAWSER_KCM_CONNECTION_TX_BYTES = 12,
	HAWSER_KCM_CONNECTION_RX_PARTIAL = 13, /* bytes of a message that is not whole yet */
	HAWSER_KCM_CONNECTION_CHANGE = 14, /* enum hawser_kcm_change; in an event */
};

enum hawser_kcm_mux {
	HAWSER_KCM_MUX_NUMBER = 1, /* as its connections have it */
	HAWSER_KCM_MUX_SOCKETS = 2,
	HAWSER_KCM_MUX_CONNECTIONS = 3,
	HAWSER_KCM_MUX_RX_MESSAGES = 4, /* that programs received and sent, since it was made; of all its sockets */
	HAWSER_KCM_MUX_RX_BYTES = 5,
	HAWSER_KCM_MUX_TX_MESSAGES = 6,
	HAWSER_KCM_MUX_TX_BYTES = 7,
	HAWSER_KCM_MUX_UNREAD = 8, /* messages that wait in its sockets, to be received and to be sent */
	HAWSER_KCM_MUX_UNSENT = 9,
};

enum hawser_kcm_change {
	HAWSER_KCM_ATTACHED = 0,
	HAWSER_KCM_ENDED = 1, /* by ERROR; it stays attached */
	HAWSER_KCM_DETACHED = 2,
};

#endif
