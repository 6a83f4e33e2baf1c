/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: what core reports to people who look at a running system. In the kernel they are events/rds/, events/kcm/ and
 * events/rtrs/ of tracefs, for trace-cmd, perf and bpftrace; Documentation/tracepoints.rst describes their fields. An event
 * that is not listened to costs a load and a branch: core asks kapi_traces() before it collects what an event has.
 */
#ifndef KAPI_TRACE_H
#define KAPI_TRACE_H

#include <kapi/types.h>

KAPI_BEGIN

enum kapi_trace {
	/* trace_rds.h */
	KAPI_TRACE_RDS_SEND,
	KAPI_TRACE_RDS_TRANSMIT,
	KAPI_TRACE_RDS_RECEIVE,
	KAPI_TRACE_RDS_DELIVER,
	KAPI_TRACE_RDS_ACKNOWLEDGE,
	KAPI_TRACE_RDS_PATH,
	KAPI_TRACE_RDS_CONGESTION,
	KAPI_TRACE_RDS_MAP,
	/* trace_kcm.h */
	KAPI_TRACE_KCM_SEND,
	KAPI_TRACE_KCM_TRANSMIT,
	KAPI_TRACE_KCM_RECEIVE,
	KAPI_TRACE_KCM_DELIVER,
	KAPI_TRACE_KCM_ATTACH,
	KAPI_TRACE_KCM_END,
	KAPI_TRACE_KCM_UNATTACH,
	/* trace_rtrs.h */
	KAPI_TRACE_RTRS_CLIENT_REQUEST,
	KAPI_TRACE_RTRS_CLIENT_DONE,
	KAPI_TRACE_RTRS_CLIENT_PATH,
	KAPI_TRACE_RTRS_SERVER_REQUEST,
	KAPI_TRACE_RTRS_SERVER_ANSWER,
	KAPI_TRACE_RTRS_SERVER_PATH,
};

/* Bits 1 << enum kapi_trace of the events that are listened to. Written by the host alone. */
extern unsigned long kapi_trace_on;

/* [any] Whether the event is listened to. */
static inline int kapi_traces(enum kapi_trace event) KAPI_NOEXCEPT
{
	unsigned long on = __atomic_load_n(&kapi_trace_on, __ATOMIC_RELAXED);

	return __builtin_expect((on >> event & 1) != 0, 0) != 0;
}

KAPI_END
#endif
