// SPDX-License-Identifier: GPL-2.0
// Loopback: messages between addresses of one host. Its connections pass messages instead of bytes
// (Path::pump_loop), so of a transport's operations it needs only the check of addresses.
#pragma once

#include "transport.h"

namespace rds {

extern const rds_transport loop_transport;

} // namespace rds
