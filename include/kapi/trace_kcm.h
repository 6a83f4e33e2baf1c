/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of KCM: see trace.h. A connection has the number that SIOCKCM and the control messages use. */
#ifndef KAPI_TRACE_KCM_FILE
#define KAPI_TRACE_KCM_FILE

#include <kapi/trace.h>

KAPI_BEGIN

/*
 * [any] SEND: a program's message is queued; connection 0: any may take it. TRANSMIT: TCP has taken all of one. RECEIVE: so many
 * messages, of length bytes together, have arrived. DELIVER: a program has got length bytes of a message.
 */
void kapi_trace_kcm_message(enum kapi_trace event, kapi_u64 connection, kapi_u32 messages, kapi_u32 length) KAPI_NOEXCEPT;

/* [any] ATTACH, UNATTACH; END: it has failed, with this error, or its peer has closed it (EPIPE). */
void kapi_trace_kcm_connection(enum kapi_trace event, kapi_u64 connection, int error) KAPI_NOEXCEPT;

KAPI_END
#endif
