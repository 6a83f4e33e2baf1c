/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of KCM: what kapi/trace_kcm.h describes, as events/kcm/ of tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kcm

#if !defined(EVENTS_KCM_H) || defined(TRACE_HEADER_MULTI_READ)
#define EVENTS_KCM_H

#include <linux/tracepoint.h>

#include <kapi/trace_kcm.h>

#include "listened.h"

LISTENED_TO(kcm_send)
LISTENED_TO(kcm_transmit)
LISTENED_TO(kcm_receive)
LISTENED_TO(kcm_deliver)
LISTENED_TO(kcm_attach)
LISTENED_TO(kcm_end)
LISTENED_TO(kcm_unattach)

DECLARE_EVENT_CLASS(kcm_message,
	TP_PROTO(__u64 connection, __u32 messages, __u32 length),
	TP_ARGS(connection, messages, length),
	TP_STRUCT__entry(
		__field(__u64, connection)
		__field(__u32, messages)
		__field(__u32, length)
	),
	TP_fast_assign(
		__entry->connection = connection;
		__entry->messages = messages;
		__entry->length = length;
	),
	TP_printk("connection=%llu messages=%u length=%u", __entry->connection, __entry->messages, __entry->length)
);

#define KCM_MESSAGE_EVENT(name)                                                                                        \
	DEFINE_EVENT_FN(kcm_message, name, TP_PROTO(__u64 connection, __u32 messages, __u32 length),                   \
			TP_ARGS(connection, messages, length), trace_begins_##name, trace_ends_##name)

KCM_MESSAGE_EVENT(kcm_send);
KCM_MESSAGE_EVENT(kcm_transmit);
KCM_MESSAGE_EVENT(kcm_receive);
KCM_MESSAGE_EVENT(kcm_deliver);

DECLARE_EVENT_CLASS(kcm_connection,
	TP_PROTO(__u64 connection, int error),
	TP_ARGS(connection, error),
	TP_STRUCT__entry(
		__field(__u64, connection)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->connection = connection;
		__entry->error = error;
	),
	TP_printk("connection=%llu error=%d", __entry->connection, __entry->error)
);

#define KCM_CONNECTION_EVENT(name)                                                                                     \
	DEFINE_EVENT_FN(kcm_connection, name, TP_PROTO(__u64 connection, int error), TP_ARGS(connection, error),       \
			trace_begins_##name, trace_ends_##name)

KCM_CONNECTION_EVENT(kcm_attach);
KCM_CONNECTION_EVENT(kcm_end);
KCM_CONNECTION_EVENT(kcm_unattach);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events_kcm
#include <trace/define_trace.h>
