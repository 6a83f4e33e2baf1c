// SPDX-License-Identifier: GPL-2.0
// The locks of the client, in the order in which they are taken: a lock of a smaller rank first. Locks of equal rank are never
// held together.
#pragma once

namespace rtrs_clt {

// The paths of a session, its geometry, and what is reported to its user.
struct SessionLock { static constexpr const char* name = "rtrs_clt session"; static constexpr unsigned rank = 20; };
// The state of a path and what is wanted of it.
struct PathLock { static constexpr const char* name = "rtrs_clt path"; static constexpr unsigned rank = 30; };
// The connections of one number that take requests: one of each path.
struct LaneLock {
    static constexpr const char* name = "rtrs_clt lane";
    static constexpr unsigned rank = 40;
    static constexpr bool irqs_off = true;
};
// Who may post to a queue pair.
struct PostLock {
    static constexpr const char* name = "rtrs_clt post";
    static constexpr unsigned rank = 50;
    static constexpr bool irqs_off = true;
};
// Requests that wait for a path.
struct ParkedLock { static constexpr const char* name = "rtrs_clt parked"; static constexpr unsigned rank = 60; };
// Chunks that are kept from use.
struct KeptLock { static constexpr const char* name = "rtrs_clt kept"; static constexpr unsigned rank = 65; };
// The devices, and which paths use them.
struct DevicesLock { static constexpr const char* name = "rtrs_clt devices"; static constexpr unsigned rank = 70; };

} // namespace rtrs_clt
