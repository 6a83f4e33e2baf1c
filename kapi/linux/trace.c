// SPDX-License-Identifier: GPL-2.0
/* Tracepoints. They are in this module, so that the modules of the protocols, and core, need none of the kernel's headers. */

#include <linux/bitops.h>
#include <linux/export.h>

#include <kapi/trace.h>

#define CREATE_TRACE_POINTS
#include "events_kcm.h"
#include "events_rds.h"
#include "events_rtrs.h"

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
EVENT(kcm_send, KAPI_TRACE_KCM_SEND)
EVENT(kcm_transmit, KAPI_TRACE_KCM_TRANSMIT)
EVENT(kcm_receive, KAPI_TRACE_KCM_RECEIVE)
EVENT(kcm_deliver, KAPI_TRACE_KCM_DELIVER)
EVENT(kcm_attach, KAPI_TRACE_KCM_ATTACH)
EVENT(kcm_end, KAPI_TRACE_KCM_END)
EVENT(kcm_unattach, KAPI_TRACE_KCM_UNATTACH)
EVENT(rtrs_client_request, KAPI_TRACE_RTRS_CLIENT_REQUEST)
EVENT(rtrs_client_done, KAPI_TRACE_RTRS_CLIENT_DONE)
EVENT(rtrs_client_path, KAPI_TRACE_RTRS_CLIENT_PATH)
EVENT(rtrs_server_request, KAPI_TRACE_RTRS_SERVER_REQUEST)
EVENT(rtrs_server_answer, KAPI_TRACE_RTRS_SERVER_ANSWER)
EVENT(rtrs_server_path, KAPI_TRACE_RTRS_SERVER_PATH)

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

void kapi_trace_kcm_message(enum kapi_trace event, kapi_u64 connection, kapi_u32 messages, kapi_u32 length)
{
	switch (event) {
	case KAPI_TRACE_KCM_SEND:
		trace_kcm_send(connection, messages, length);
		break;
	case KAPI_TRACE_KCM_TRANSMIT:
		trace_kcm_transmit(connection, messages, length);
		break;
	case KAPI_TRACE_KCM_RECEIVE:
		trace_kcm_receive(connection, messages, length);
		break;
	case KAPI_TRACE_KCM_DELIVER:
		trace_kcm_deliver(connection, messages, length);
		break;
	default:
		break;
	}
}
EXPORT_SYMBOL_GPL(kapi_trace_kcm_message);

void kapi_trace_kcm_connection(enum kapi_trace event, kapi_u64 connection, int error)
{
	switch (event) {
	case KAPI_TRACE_KCM_ATTACH:
		trace_kcm_attach(connection, error);
		break;
	case KAPI_TRACE_KCM_END:
		trace_kcm_end(connection, error);
		break;
	case KAPI_TRACE_KCM_UNATTACH:
		trace_kcm_unattach(connection, error);
		break;
	default:
		break;
	}
}
EXPORT_SYMBOL_GPL(kapi_trace_kcm_connection);

void kapi_trace_rtrs_request(enum kapi_trace event, const struct kapi_trace_rtrs_ends *ends,
			     const struct kapi_trace_rtrs_io *request)
{
	switch (event) {
	case KAPI_TRACE_RTRS_CLIENT_REQUEST:
		trace_rtrs_client_request(ends, request);
		break;
	case KAPI_TRACE_RTRS_CLIENT_DONE:
		trace_rtrs_client_done(ends, request);
		break;
	case KAPI_TRACE_RTRS_SERVER_REQUEST:
		trace_rtrs_server_request(ends, request);
		break;
	case KAPI_TRACE_RTRS_SERVER_ANSWER:
		trace_rtrs_server_answer(ends, request);
		break;
	default:
		break;
	}
}
EXPORT_SYMBOL_GPL(kapi_trace_rtrs_request);

void kapi_trace_rtrs_path(enum kapi_trace event, const struct kapi_trace_rtrs_ends *ends, const char *from, const char *to,
			  int error)
{
	if (event == KAPI_TRACE_RTRS_CLIENT_PATH)
		trace_rtrs_client_path(ends, from, to, error);
	else
		trace_rtrs_server_path(ends, from, to, error);
}
EXPORT_SYMBOL_GPL(kapi_trace_rtrs_path);
