// SPDX-License-Identifier: GPL-2.0
// What is reported of messages and paths to people who look at a running system (kapi/trace_rds.h). Any context.
#pragma once

#include <kapi/trace_rds.h>

#include "wire.h"

namespace rds {

class Connection;
class Path;
struct Endpoint;

// Of an event that is listened to.
void report_outgoing(kapi_trace event, const Path& path, const Header& header);
void report_incoming(const Path& path, const Header& header);
void report_delivery(const Endpoint& to, const Endpoint& from, const Header& header);
void report_acknowledgement(const Path& path, u32 position);
void report_path(const Path& path, kapi_trace_rds_state from, kapi_trace_rds_state to, kapi_trace_rds_reason reason);

// Not listened to, they cost a load and a branch.
inline void trace_outgoing(kapi_trace event, const Path& path, const Header& header)
{
    if (kapi_traces(event))
        report_outgoing(event, path, header);
}

inline void trace_incoming(const Path& path, const Header& header)
{
    if (kapi_traces(KAPI_TRACE_RDS_RECEIVE))
        report_incoming(path, header);
}

inline void trace_delivery(const Endpoint& to, const Endpoint& from, const Header& header)
{
    if (kapi_traces(KAPI_TRACE_RDS_DELIVER))
        report_delivery(to, from, header);
}

inline void trace_acknowledgement(const Path& path, u32 position)
{
    if (kapi_traces(KAPI_TRACE_RDS_ACKNOWLEDGE))
        report_acknowledgement(path, position);
}

} // namespace rds
