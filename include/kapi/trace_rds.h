/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of RDS: see trace.h. */
#ifndef KAPI_TRACE_RDS_FILE
#define KAPI_TRACE_RDS_FILE

#include <kapi/trace.h>

KAPI_BEGIN

/* What the events have in common. The addresses are IPv6 or v4-mapped, in network order. */
struct kapi_trace_ends {
	const kapi_u8 *local, *remote;
	int path; /* below 0: not known */
};

struct kapi_trace_message {
	struct kapi_trace_ends ends;
	kapi_u16 local_port, remote_port;
	kapi_u64 sequence; /* of its path, 0: it has none */
	kapi_u32 length;   /* of its payload */
	kapi_u32 flags;    /* of its header */
};
/*
 * [any] SEND: a program's message is queued. TRANSMIT: the transport has taken all of a message. RECEIVE: all of a message has
 * arrived. DELIVER: a program has a message.
 */
void kapi_trace_rds_message(enum kapi_trace event, const struct kapi_trace_message *message) KAPI_NOEXCEPT;

/* [any] The peer has all before position: of the stream with TCP, else the number of the next message. */
void kapi_trace_rds_acknowledge(const struct kapi_trace_ends *ends, kapi_u32 position) KAPI_NOEXCEPT;

/* The states of a path, and why it is in the last one. */
enum kapi_trace_rds_state { KAPI_RDS_DOWN, KAPI_RDS_CONNECTING, KAPI_RDS_UP, KAPI_RDS_CLOSING };
enum kapi_trace_rds_reason {
	KAPI_RDS_WANTED,      /* there is something to send */
	KAPI_RDS_ESTABLISHED, /* the peer's host accepted the stream */
	KAPI_RDS_ACCEPTED,    /* the peer opened the stream */
	KAPI_RDS_REFUSED,     /* the peer's host refused the stream, or did not answer in time */
	KAPI_RDS_HEARD,       /* the stream was the request for one from the peer */
	KAPI_RDS_LOST,        /* the stream has ended, or something was wrong with what came over it */
	KAPI_RDS_REPLACED,    /* the peer opened another stream */
	KAPI_RDS_DEAD,        /* the peer does not acknowledge */
	KAPI_RDS_UNANSWERED,  /* the peer does not answer probes */
	KAPI_RDS_UNUSED,      /* nobody uses the path, or the peer does without it */
	KAPI_RDS_RENEWED,     /* it is closed to be opened again */
	KAPI_RDS_REMOVED,     /* the connection ends */
	KAPI_RDS_CLOSED,      /* the stream is gone */
};
/* [any] */
void kapi_trace_rds_path(const struct kapi_trace_ends *ends, enum kapi_trace_rds_state from, enum kapi_trace_rds_state to,
			 enum kapi_trace_rds_reason reason) KAPI_NOEXCEPT;

/* [any] The socket at this address and port of this host is full, or has room again. */
void kapi_trace_rds_congestion(const kapi_u8 *local, kapi_u16 port, int congested) KAPI_NOEXCEPT;

/* [any] The map of the peer's full sockets arrived. changes: it differs from the last one. */
void kapi_trace_rds_map(const kapi_u8 *remote, int changes) KAPI_NOEXCEPT;

KAPI_END
#endif
