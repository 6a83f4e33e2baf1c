// SPDX-License-Identifier: GPL-2.0
// The locks of the RTRS server in the order in which they are taken, as in net/lock_order.h.
#pragma once

namespace rtrs_srv {

// The opened servers.
struct ModuleLock { static constexpr const char* name = "rtrs_srv module"; static constexpr unsigned rank = 5; };
// The sessions of an opened server, what peers ask for, and the paths that are over.
struct ContextLock { static constexpr const char* name = "rtrs_srv context"; static constexpr unsigned rank = 10; };
// The paths of a session, and its name.
struct SessionLock { static constexpr const char* name = "rtrs_srv session"; static constexpr unsigned rank = 20; };
// The devices, and which paths use them.
struct DevicesLock { static constexpr const char* name = "rtrs_srv devices"; static constexpr unsigned rank = 25; };
// State and events of a path. Users answer in hard interrupts, where an answer may end a path, or begin the next request: this
// lock and those below are taken there.
struct PathLock {
    static constexpr const char* name = "rtrs_srv path";
    static constexpr unsigned rank = 30;
    static constexpr bool irqs_off = true;
};
// The send queue of a connection, and what waits for room in it.
struct SendLock {
    static constexpr const char* name = "rtrs_srv send";
    static constexpr unsigned rank = 40;
    static constexpr bool irqs_off = true;
};
// Whose a chunk is, and who waits for it. It is taken under the one before.
struct ChunkLock {
    static constexpr const char* name = "rtrs_srv chunk";
    static constexpr unsigned rank = 50;
    static constexpr bool irqs_off = true;
};
// How much memory peers make the host hold.
struct BudgetLock {
    static constexpr const char* name = "rtrs_srv budget";
    static constexpr unsigned rank = 60;
    static constexpr bool irqs_off = true;
};

} // namespace rtrs_srv
