// SPDX-License-Identifier: GPL-2.0
// The locks of all modules, in the order in which they are taken: a lock of a smaller rank first. Locks of equal rank are
// never held together. The simulator checks this at each lock, lockdep in the kernel. RDS and its transports have one order;
// KCM has its own, because neither calls the other.
#pragma once

namespace rds {

struct ModuleLock { static constexpr const char* name = "rds module"; static constexpr unsigned rank = 5; };
struct BindLock { static constexpr const char* name = "rds bind"; static constexpr unsigned rank = 10; };
struct ConnectionTableLock { static constexpr const char* name = "rds connections"; static constexpr unsigned rank = 10; };
struct ConnectionLock { static constexpr const char* name = "rds connection"; static constexpr unsigned rank = 20; };
struct PathLock { static constexpr const char* name = "rds path"; static constexpr unsigned rank = 30; };
struct MonitorLock { static constexpr const char* name = "rds monitors"; static constexpr unsigned rank = 35; };
struct CongestionReportLock { static constexpr const char* name = "rds congestion report"; static constexpr unsigned rank = 38; };
struct NoticeLock { static constexpr const char* name = "rds notices"; static constexpr unsigned rank = 39; };
struct SocketLock { static constexpr const char* name = "rds socket"; static constexpr unsigned rank = 40; };

} // namespace rds

namespace rds_tcp {

struct ModuleLock { static constexpr const char* name = "rds_tcp module"; static constexpr unsigned rank = 45; };
struct NetLock { static constexpr const char* name = "rds_tcp net"; static constexpr unsigned rank = 48; };
struct StreamsLock { static constexpr const char* name = "rds_tcp streams"; static constexpr unsigned rank = 50; };

} // namespace rds_tcp

namespace rds_rdma {

struct ModuleLock { static constexpr const char* name = "rds_rdma module"; static constexpr unsigned rank = 45; };
// The devices, and which connections use them.
struct DevicesLock { static constexpr const char* name = "rds_rdma devices"; static constexpr unsigned rank = 46; };
// What peers of a namespace ask for.
struct NetLock { static constexpr const char* name = "rds_rdma net"; static constexpr unsigned rank = 48; };
// What the peer of a connection asks for.
struct WaitingLock { static constexpr const char* name = "rds_rdma waiting"; static constexpr unsigned rank = 49; };
// What programs are shown of a connection.
struct RowLock { static constexpr const char* name = "rds_rdma row"; static constexpr unsigned rank = 49; };
// What a connection has received and not handled.
struct ReceivedLock { static constexpr const char* name = "rds_rdma received"; static constexpr unsigned rank = 50; };
// Whose region a connection registers at present.
struct RegisterLock { static constexpr const char* name = "rds_rdma register"; static constexpr unsigned rank = 51; };
// Who may post to a queue pair.
struct PostLock { static constexpr const char* name = "rds_rdma post"; static constexpr unsigned rank = 52; };

} // namespace rds_rdma

namespace rds {

struct MapLock { static constexpr const char* name = "rds map"; static constexpr unsigned rank = 60; };
struct ChangedMapsLock { static constexpr const char* name = "rds changed maps"; static constexpr unsigned rank = 62; };
struct MapTableLock { static constexpr const char* name = "rds maps"; static constexpr unsigned rank = 65; };
struct PathTimerLock { static constexpr const char* name = "rds path timer"; static constexpr unsigned rank = 68; };
struct LiveLock { static constexpr const char* name = "rds live"; static constexpr unsigned rank = 70; };

} // namespace rds

namespace kcm {

// Users and their queues of works.
struct UsersLock { static constexpr const char* name = "kcm users"; static constexpr unsigned rank = 5; };
// The multiplexors of a namespace.
struct NetLock { static constexpr const char* name = "kcm namespace"; static constexpr unsigned rank = 10; };
// The same by their numbers.
struct NumbersLock { static constexpr const char* name = "kcm numbers"; static constexpr unsigned rank = 10; };
// The sockets and connections of a multiplexor.
struct MembersLock { static constexpr const char* name = "kcm members"; static constexpr unsigned rank = 20; };
// The receive queues of a multiplexor, and the connections that wait for room.
struct DistributorLock { static constexpr const char* name = "kcm receive"; static constexpr unsigned rank = 30; };
// The send queues of a socket.
struct SendLock { static constexpr const char* name = "kcm send"; static constexpr unsigned rank = 35; };
// The owners of the connections of a multiplexor, and the queues that wait for them.
struct ReservationsLock { static constexpr const char* name = "kcm transmit"; static constexpr unsigned rank = 40; };

// Which connections of a user wait for memory.
struct ShortageLock { static constexpr const char* name = "kcm shortage"; static constexpr unsigned rank = 50; };
// Which users have such connections, or others.
struct ShortagesLock { static constexpr const char* name = "kcm shortages"; static constexpr unsigned rank = 60; };

} // namespace kcm
