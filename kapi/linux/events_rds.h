/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of RDS: what kapi/trace_rds.h describes, as events/rds/ of tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rds

#if !defined(EVENTS_RDS_H) || defined(TRACE_HEADER_MULTI_READ)
#define EVENTS_RDS_H

#include <linux/tracepoint.h>

#include <kapi/trace_rds.h>

#include "listened.h"

LISTENED_TO(rds_send)
LISTENED_TO(rds_transmit)
LISTENED_TO(rds_receive)
LISTENED_TO(rds_deliver)
LISTENED_TO(rds_acknowledge)
LISTENED_TO(rds_path)
LISTENED_TO(rds_congestion)
LISTENED_TO(rds_map)

DECLARE_EVENT_CLASS(rds_message,
	TP_PROTO(const struct kapi_trace_message *message),
	TP_ARGS(message),
	TP_STRUCT__entry(
		__array(__u8, local, 16)
		__array(__u8, remote, 16)
		__field(__u16, local_port)
		__field(__u16, remote_port)
		__field(int, path)
		__field(__u64, sequence)
		__field(__u32, length)
		__field(__u32, flags)
	),
	TP_fast_assign(
		memcpy(__entry->local, message->ends.local, 16);
		memcpy(__entry->remote, message->ends.remote, 16);
		__entry->local_port = message->local_port;
		__entry->remote_port = message->remote_port;
		__entry->path = message->ends.path;
		__entry->sequence = message->sequence;
		__entry->length = message->length;
		__entry->flags = message->flags;
	),
	TP_printk("local=%pI6c:%u remote=%pI6c:%u path=%d sequence=%llu length=%u flags=%#x", __entry->local,
		  __entry->local_port, __entry->remote, __entry->remote_port, __entry->path, __entry->sequence,
		  __entry->length, __entry->flags)
);

#define RDS_MESSAGE_EVENT(name)                                                                                        \
	DEFINE_EVENT_FN(rds_message, name, TP_PROTO(const struct kapi_trace_message *message), TP_ARGS(message),       \
			trace_begins_##name, trace_ends_##name)

RDS_MESSAGE_EVENT(rds_send);
RDS_MESSAGE_EVENT(rds_transmit);
RDS_MESSAGE_EVENT(rds_receive);
RDS_MESSAGE_EVENT(rds_deliver);

TRACE_EVENT_FN(rds_acknowledge,
	TP_PROTO(const struct kapi_trace_ends *ends, __u32 position),
	TP_ARGS(ends, position),
	TP_STRUCT__entry(
		__array(__u8, local, 16)
		__array(__u8, remote, 16)
		__field(int, path)
		__field(__u32, position)
	),
	TP_fast_assign(
		memcpy(__entry->local, ends->local, 16);
		memcpy(__entry->remote, ends->remote, 16);
		__entry->path = ends->path;
		__entry->position = position;
	),
	TP_printk("local=%pI6c remote=%pI6c path=%d position=%u", __entry->local, __entry->remote, __entry->path,
		  __entry->position),
	trace_begins_rds_acknowledge, trace_ends_rds_acknowledge
);

#define RDS_STATES                                                                                                     \
	{ KAPI_RDS_DOWN, "down" }, { KAPI_RDS_CONNECTING, "connecting" }, { KAPI_RDS_UP, "up" },                       \
	{ KAPI_RDS_CLOSING, "closing" }
#define RDS_REASONS                                                                                                    \
	{ KAPI_RDS_WANTED, "wanted" }, { KAPI_RDS_ESTABLISHED, "established" }, { KAPI_RDS_ACCEPTED, "accepted" },     \
	{ KAPI_RDS_REFUSED, "refused" }, { KAPI_RDS_HEARD, "heard" }, { KAPI_RDS_LOST, "lost" },                       \
	{ KAPI_RDS_REPLACED, "replaced" }, { KAPI_RDS_DEAD, "dead" }, { KAPI_RDS_UNANSWERED, "unanswered" },           \
	{ KAPI_RDS_UNUSED, "unused" }, { KAPI_RDS_RENEWED, "renewed" }, { KAPI_RDS_REMOVED, "removed" },               \
	{ KAPI_RDS_CLOSED, "closed" }

/* Programs that read the format need the numbers of the names. */
TRACE_DEFINE_ENUM(KAPI_RDS_DOWN);
TRACE_DEFINE_ENUM(KAPI_RDS_CONNECTING);
TRACE_DEFINE_ENUM(KAPI_RDS_UP);
TRACE_DEFINE_ENUM(KAPI_RDS_CLOSING);
TRACE_DEFINE_ENUM(KAPI_RDS_WANTED);
TRACE_DEFINE_ENUM(KAPI_RDS_ESTABLISHED);
TRACE_DEFINE_ENUM(KAPI_RDS_ACCEPTED);
TRACE_DEFINE_ENUM(KAPI_RDS_REFUSED);
TRACE_DEFINE_ENUM(KAPI_RDS_HEARD);
TRACE_DEFINE_ENUM(KAPI_RDS_LOST);
TRACE_DEFINE_ENUM(KAPI_RDS_REPLACED);
TRACE_DEFINE_ENUM(KAPI_RDS_DEAD);
TRACE_DEFINE_ENUM(KAPI_RDS_UNANSWERED);
TRACE_DEFINE_ENUM(KAPI_RDS_UNUSED);
TRACE_DEFINE_ENUM(KAPI_RDS_RENEWED);
TRACE_DEFINE_ENUM(KAPI_RDS_REMOVED);
TRACE_DEFINE_ENUM(KAPI_RDS_CLOSED);

TRACE_EVENT_FN(rds_path,
	TP_PROTO(const struct kapi_trace_ends *ends, int from, int to, int reason),
	TP_ARGS(ends, from, to, reason),
	TP_STRUCT__entry(
		__array(__u8, local, 16)
		__array(__u8, remote, 16)
		__field(int, path)
		__field(int, from)
		__field(int, to)
		__field(int, reason)
	),
	TP_fast_assign(
		memcpy(__entry->local, ends->local, 16);
		memcpy(__entry->remote, ends->remote, 16);
		__entry->path = ends->path;
		__entry->from = from;
		__entry->to = to;
		__entry->reason = reason;
	),
	TP_printk("local=%pI6c remote=%pI6c path=%d from=%s to=%s reason=%s", __entry->local, __entry->remote, __entry->path,
		  __print_symbolic(__entry->from, RDS_STATES), __print_symbolic(__entry->to, RDS_STATES),
		  __print_symbolic(__entry->reason, RDS_REASONS)),
	trace_begins_rds_path, trace_ends_rds_path
);

TRACE_EVENT_FN(rds_congestion,
	TP_PROTO(const __u8 *local, __u16 port, int congested),
	TP_ARGS(local, port, congested),
	TP_STRUCT__entry(
		__array(__u8, local, 16)
		__field(__u16, port)
		__field(int, congested)
	),
	TP_fast_assign(
		memcpy(__entry->local, local, 16);
		__entry->port = port;
		__entry->congested = congested;
	),
	TP_printk("local=%pI6c:%u congested=%d", __entry->local, __entry->port, __entry->congested),
	trace_begins_rds_congestion, trace_ends_rds_congestion
);

TRACE_EVENT_FN(rds_map,
	TP_PROTO(const __u8 *remote, int changes),
	TP_ARGS(remote, changes),
	TP_STRUCT__entry(
		__array(__u8, remote, 16)
		__field(int, changes)
	),
	TP_fast_assign(
		memcpy(__entry->remote, remote, 16);
		__entry->changes = changes;
	),
	TP_printk("remote=%pI6c changes=%d", __entry->remote, __entry->changes),
	trace_begins_rds_map, trace_ends_rds_map
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events_rds
#include <trace/define_trace.h>
