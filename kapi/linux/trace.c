// SPDX-License-Identifier: GPL-2.0
/* Tracepoints. They are in this module, so that the modules of the protocols, and core, need none of the kernel's headers. */

#include <linux/bitops.h>
#include <linux/export.h>

#include <kapi/trace.h>

#define CREATE_TRACE_POINTS
#include "trace_rds.h"

unsigned long kapi_trace_on;
EXPORT_SYMBOL_GPL(kapi_trace_on);

#define EVENT(name, bit)                                                                                               \
	int trace_begins_##name(void)                                                                                  \
	{                                                                                                              \
		set_bit(bit, &kapi_trace_on);                                                                          \
		return 0;                                                                                              \
	}                                                                                                              \
	void trace_ends_##name(void)                                                                                   \
	{                                                                                                              \
		clear_bit(bit, &kapi_trace_on);                                                                        \
	}
EVENT(rds_send, KAPI_TRACE_RDS_SEND)
EVENT(rds_transmit, KAPI_TRACE_RDS_TRANSMIT)
EVENT(rds_receive, KAPI_TRACE_RDS_RECEIVE)
EVENT(rds_deliver, KAPI_TRACE_RDS_DELIVER)
EVENT(rds_acknowledge, KAPI_TRACE_RDS_ACKNOWLEDGE)
EVENT(rds_path, KAPI_TRACE_RDS_PATH)
EVENT(rds_congestion, KAPI_TRACE_RDS_CONGESTION)
EVENT(rds_map, KAPI_TRACE_RDS_MAP)

void kapi_trace_rds_message(enum kapi_trace event, const struct kapi_trace_message *message)
{
	switch (event) {
	case KAPI_TRACE_RDS_SEND:
		trace_rds_send(message);
		break;
	case KAPI_TRACE_RDS_TRANSMIT:
		trace_rds_transmit(message);
		break;
	case KAPI_TRACE_RDS_RECEIVE:
		trace_rds_receive(message);
		break;
	case KAPI_TRACE_RDS_DELIVER:
		trace_rds_deliver(message);
		break;
	default:
		break;
	}
}
EXPORT_SYMBOL_GPL(kapi_trace_rds_message);

void kapi_trace_rds_acknowledge(const struct kapi_trace_ends *ends, kapi_u32 position)
{
	trace_rds_acknowledge(ends, position);
}
EXPORT_SYMBOL_GPL(kapi_trace_rds_acknowledge);

void kapi_trace_rds_path(const struct kapi_trace_ends *ends, enum kapi_trace_rds_state from, enum kapi_trace_rds_state to,
			 enum kapi_trace_rds_reason reason)
{
	trace_rds_path(ends, from, to, reason);
}
EXPORT_SYMBOL_GPL(kapi_trace_rds_path);

void kapi_trace_rds_congestion(const kapi_u8 *local, kapi_u16 port, int congested)
{
	trace_rds_congestion(local, port, congested);
}
EXPORT_SYMBOL_GPL(kapi_trace_rds_congestion);

void kapi_trace_rds_map(const kapi_u8 *remote, int changes)
{
	trace_rds_map(remote, changes);
}
EXPORT_SYMBOL_GPL(kapi_trace_rds_map);
