// SPDX-License-Identifier: GPL-2.0
#include "trace.h"

#include "connection.h"

namespace rds {

namespace {

constexpr int no_path = -1;

kapi_trace_ends ends_of(const Path& path)
{
    const Connection& connection = path.connection();
    return {connection.local.ip.bytes(), connection.remote.ip.bytes(), static_cast<int>(path.index())};
}

} // namespace

void report_outgoing(kapi_trace event, const Path& path, const Header& header)
{
    kapi_trace_message message{ends_of(path), header.sport, header.dport, header.sequence, header.length, header.flags};
    kapi_trace_rds_message(event, &message);
}

// What comes over loopback is on its sender's connection.
void report_incoming(const Path& path, const Header& header)
{
    kapi_trace_ends ends = ends_of(path);
    if (path.connection().loops())
        std::swap(ends.local, ends.remote);
    kapi_trace_message message{ends, header.dport, header.sport, header.sequence, header.length, header.flags};
    kapi_trace_rds_message(KAPI_TRACE_RDS_RECEIVE, &message);
}

void report_delivery(const Endpoint& to, const Endpoint& from, const Header& header)
{
    kapi_trace_ends ends{to.ip.bytes(), from.ip.bytes(), no_path};
    kapi_trace_message message{ends, to.port, from.port, header.sequence, header.length, header.flags};
    kapi_trace_rds_message(KAPI_TRACE_RDS_DELIVER, &message);
}

void report_acknowledgement(const Path& path, u32 position)
{
    kapi_trace_ends ends = ends_of(path);
    kapi_trace_rds_acknowledge(&ends, position);
}

void report_path(const Path& path, kapi_trace_rds_state from, kapi_trace_rds_state to, kapi_trace_rds_reason reason)
{
    kapi_trace_ends ends = ends_of(path);
    kapi_trace_rds_path(&ends, from, to, reason);
}

} // namespace rds
