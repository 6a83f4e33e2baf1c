// SPDX-License-Identifier: GPL-2.0
// Tracepoints of a simulated machine: always on, so that every run executes what collects an event. Lines as the kernel prints
// them are kept where a test asks for them.
#include <kapi/trace_kcm.h>
#include <kapi/trace_rds.h>
#include <kapi/trace_rtrs.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "node.h"

using namespace sim;

unsigned long kapi_trace_on = ~0ul;

namespace {

std::string text_of(const kapi_u8 *ip)
{
    static constexpr kapi_u8 mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    char text[48];
    if (std::memcmp(ip, mapped, sizeof(mapped)) == 0)
        std::snprintf(text, sizeof(text), "%u.%u.%u.%u", ip[12], ip[13], ip[14], ip[15]);
    else
        std::snprintf(text, sizeof(text), "%x:%x::%x:%x", ip[0] << 8 | ip[1], ip[2] << 8 | ip[3], ip[12] << 8 | ip[13],
                      ip[14] << 8 | ip[15]);
    return text;
}

__attribute__((format(printf, 1, 2))) void keep(const char *format, ...)
{
    Node *node = Node::current();
    if (!node || !node->traced)
        return;
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    node->traced->emplace_back(line);
}

} // namespace

void kapi_trace_rds_message(enum kapi_trace event, const struct kapi_trace_message *message) noexcept
{
    static constexpr const char *names[] = {"send", "transmit", "receive", "deliver"};
    keep("rds_%s local=%s:%u remote=%s:%u path=%d sequence=%llu length=%u flags=%#x", names[event],
         text_of(message->ends.local).c_str(), message->local_port, text_of(message->ends.remote).c_str(),
         message->remote_port, message->ends.path, message->sequence, message->length, message->flags);
}

void kapi_trace_rds_acknowledge(const struct kapi_trace_ends *ends, kapi_u32 position) noexcept
{
    keep("rds_acknowledge local=%s remote=%s path=%d position=%u", text_of(ends->local).c_str(),
         text_of(ends->remote).c_str(), ends->path, position);
}

void kapi_trace_rds_path(const struct kapi_trace_ends *ends, enum kapi_trace_rds_state from, enum kapi_trace_rds_state to,
                         enum kapi_trace_rds_reason reason) noexcept
{
    static constexpr const char *states[] = {"down", "connecting", "up", "closing"};
    static constexpr const char *reasons[] = {"wanted", "established", "accepted", "refused", "heard", "lost", "replaced",
                                              "dead", "unanswered", "unused", "renewed", "removed", "closed"};
    keep("rds_path local=%s remote=%s path=%d from=%s to=%s reason=%s", text_of(ends->local).c_str(),
         text_of(ends->remote).c_str(), ends->path, states[from], states[to], reasons[reason]);
}

void kapi_trace_rds_congestion(const kapi_u8 *local, kapi_u16 port, int congested) noexcept
{
    keep("rds_congestion local=%s:%u congested=%d", text_of(local).c_str(), port, congested);
}

void kapi_trace_rds_map(const kapi_u8 *remote, int changes) noexcept
{
    keep("rds_map remote=%s changes=%d", text_of(remote).c_str(), changes);
}

void kapi_trace_kcm_message(enum kapi_trace event, kapi_u64 connection, kapi_u32 messages, kapi_u32 length) noexcept
{
    static constexpr const char *names[] = {"send", "transmit", "receive", "deliver"};
    keep("kcm_%s connection=%llu messages=%u length=%u", names[event - KAPI_TRACE_KCM_SEND], connection, messages, length);
}

void kapi_trace_kcm_connection(enum kapi_trace event, kapi_u64 connection, int error) noexcept
{
    static constexpr const char *names[] = {"attach", "end", "unattach"};
    keep("kcm_%s connection=%llu error=%d", names[event - KAPI_TRACE_KCM_ATTACH], connection, error);
}

void kapi_trace_rtrs_request(enum kapi_trace event, const struct kapi_trace_rtrs_ends *ends,
                             const struct kapi_trace_rtrs_io *request) noexcept
{
    const char *name = event == KAPI_TRACE_RTRS_CLIENT_REQUEST   ? "client_request"
                       : event == KAPI_TRACE_RTRS_CLIENT_DONE    ? "client_done"
                       : event == KAPI_TRACE_RTRS_SERVER_REQUEST ? "server_request"
                                                                 : "server_answer";
    keep("rtrs_%s local=%s remote=%s chunk=%u %s length=%u error=%d latency_ns=%llu", name, text_of(ends->local).c_str(),
          text_of(ends->remote).c_str(), request->chunk, request->is_read ? "read" : "write",
         request->length, request->error, request->latency_ns);
}

void kapi_trace_rtrs_path(enum kapi_trace event, const struct kapi_trace_rtrs_ends *ends, const char *from, const char *to,
                          int error) noexcept
{
    keep("rtrs_%s_path local=%s remote=%s from=%s to=%s error=%d",
         event == KAPI_TRACE_RTRS_CLIENT_PATH ? "client" : "server", text_of(ends->local).c_str(),
         text_of(ends->remote).c_str(), from, to, error);
}
