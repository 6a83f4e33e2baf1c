/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of RTRS: what kapi/trace_rtrs.h describes, as events/rtrs/ of tracefs. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rtrs

#if !defined(EVENTS_RTRS_H) || defined(TRACE_HEADER_MULTI_READ)
#define EVENTS_RTRS_H

#include <linux/string.h>
#include <linux/tracepoint.h>

#include <kapi/trace_rtrs.h>

#include "listened.h"

LISTENED_TO(rtrs_client_request)
LISTENED_TO(rtrs_client_done)
LISTENED_TO(rtrs_client_path)
LISTENED_TO(rtrs_server_request)
LISTENED_TO(rtrs_server_answer)
LISTENED_TO(rtrs_server_path)

#define RTRS_STATE 16 /* bytes of its name */

DECLARE_EVENT_CLASS(rtrs_request,
	TP_PROTO(const struct kapi_trace_rtrs_ends *ends, const struct kapi_trace_rtrs_io *request),
	TP_ARGS(ends, request),
	TP_STRUCT__entry(
		__array(__u8, local, 16)
		__array(__u8, remote, 16)
		__field(__u32, chunk)
		__field(__u32, length)
		__field(int, is_read)
		__field(int, error)
		__field(__u64, latency_ns)
	),
	TP_fast_assign(
		memcpy(__entry->local, ends->local, 16);
		memcpy(__entry->remote, ends->remote, 16);
		__entry->chunk = request->chunk;
		__entry->length = request->length;
		__entry->is_read = request->is_read;
		__entry->error = request->error;
		__entry->latency_ns = request->latency_ns;
	),
	TP_printk("local=%pI6c remote=%pI6c chunk=%u %s length=%u error=%d latency_ns=%llu", __entry->local, __entry->remote,
		  __entry->chunk, __entry->is_read ? "read" : "write", __entry->length, __entry->error, __entry->latency_ns)
);

#define RTRS_REQUEST_EVENT(name)                                                                                       \
	DEFINE_EVENT_FN(rtrs_request, name,                                                                            \
			TP_PROTO(const struct kapi_trace_rtrs_ends *ends, const struct kapi_trace_rtrs_io *request),  \
			TP_ARGS(ends, request), trace_begins_##name, trace_ends_##name)

RTRS_REQUEST_EVENT(rtrs_client_request);
RTRS_REQUEST_EVENT(rtrs_client_done);
RTRS_REQUEST_EVENT(rtrs_server_request);
RTRS_REQUEST_EVENT(rtrs_server_answer);

DECLARE_EVENT_CLASS(rtrs_path,
	TP_PROTO(const struct kapi_trace_rtrs_ends *ends, const char *from, const char *to, int error),
	TP_ARGS(ends, from, to, error),
	TP_STRUCT__entry(
		__array(__u8, local, 16)
		__array(__u8, remote, 16)
		__array(char, from, RTRS_STATE)
		__array(char, to, RTRS_STATE)
		__field(int, error)
	),
	TP_fast_assign(
		memcpy(__entry->local, ends->local, 16);
		memcpy(__entry->remote, ends->remote, 16);
		strscpy(__entry->from, from, RTRS_STATE);
		strscpy(__entry->to, to, RTRS_STATE);
		__entry->error = error;
	),
	TP_printk("local=%pI6c remote=%pI6c from=%s to=%s error=%d", __entry->local, __entry->remote, __entry->from,
		  __entry->to, __entry->error)
);

#define RTRS_PATH_EVENT(name)                                                                                          \
	DEFINE_EVENT_FN(rtrs_path, name,                                                                               \
			TP_PROTO(const struct kapi_trace_rtrs_ends *ends, const char *from, const char *to, int error),    \
			TP_ARGS(ends, from, to, error), trace_begins_##name, trace_ends_##name)

RTRS_PATH_EVENT(rtrs_client_path);
RTRS_PATH_EVENT(rtrs_server_path);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events_rtrs
#include <trace/define_trace.h>
