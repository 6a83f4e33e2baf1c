// SPDX-License-Identifier: GPL-2.0
// The table of operations of RDS over TCP, and the C functions that the glue calls.
#include "connection.h"
#include "glue/rds_tcp_core.h"
#include "net.h"

using namespace rds_tcp;

namespace {

TcpPath& path_of(void* state, unsigned path) { return static_cast<TcpConnection*>(state)->path(path); }

constexpr rds_transport make_transport(kapi_module* owner)
{
    return {
        .name = "tcp",
        .type = RDS_TRANSPORT_TCP,
        .owner = owner,
        .max_paths = RDS_MAX_PATHS,
        .zerocopy = 1,
        .names_peer = 0,
        .check_local = [](kapi_net* net,
                          const kapi_addr* addr) { return kapi_net_is_local(net, addr) ? 0 : -KAPI_EADDRNOTAVAIL; },
        .socket_bound = nullptr,
        .socket_closed = nullptr,
        .map_tos = [](u8) -> u8 { return 0; }, // one class of service, as the kernel's own over TCP
        .create = [](rds_conn* conn, kapi_net* host, const kapi_addr* local, const kapi_addr* remote, u8,
                     kapi_alloc_mode mode) -> void* {
            TcpNet* net = Module::get().find(host);
            return net ? TcpConnection::create(conn, *net, *local, *remote, static_cast<Alloc>(mode)) : nullptr;
        },
        .destroy = [](void* state) { TcpConnection::destroy(static_cast<TcpConnection*>(state)); },
        .connect = [](void* state, unsigned path) { return path_of(state, path).connect(); },
        .established = [](void* state, unsigned path) { return path_of(state, path).established(); },
        .adopt = [](void* state, unsigned path) { return path_of(state, path).adopt(); },
        .has_accepted = [](void* state, unsigned path) { return path_of(state, path).has_accepted(); },
        .close = [](void* state, unsigned path, rds_close_mode mode) { return path_of(state, path).close(mode); },
        .send = [](void* state, unsigned path, const kapi_segment* segments, unsigned count, u32 flags,
                   u32* end_seq) -> s64 { return path_of(state, path).send(segments, count, flags, end_seq); },
        .post = nullptr,
        .pin = nullptr,
        .unpin = nullptr,
        .pin_pages = nullptr,
        .check_atomic = nullptr,
        .hold = nullptr,
        .let_go = nullptr,
        .get_mr = nullptr,
        .get_local = nullptr,
        .put_local = nullptr,
        .end_mr = nullptr,
        .free_mr = nullptr,
        .sync_mr = nullptr,
        .resume = [](void* state, unsigned path) { path_of(state, path).resume(); },
        .tick = [](void* state, unsigned path) { return path_of(state, path).tick(); },
        .counters = static_cast<unsigned>(Stat::count),
        .counter_names = stat_names,
        .counter = [](kapi_net* host, unsigned index) -> u64 {
            TcpNet* net = Module::get().find(host);
            return net ? net->counted(index) : 0;
        },
        .socket_row = [](void* state, unsigned path,
                         rds_tcp_socket_row* row) { return path_of(state, path).row(*row) ? 1 : 0; },
        .rdma_row = nullptr,
    };
}

} // namespace

extern "C" {

// The least sizes are the kernel's SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF (include/net/sock.h) on 64 bits.
#define ROW(field, low, high) {#field, offsetof(rds_tcp_sysctl, field), sizeof(rds_tcp_sysctl::field), low, high}
extern constinit const rds_tcp_sysctl_row rds_tcp_sysctl_table[] = {
    ROW(rds_tcp_sndbuf, 4608, 0x3fffffff),
    ROW(rds_tcp_rcvbuf, 2304, 0x3fffffff),
    ROW(rds_tcp_dead_peer_ms, 1000, 3'600'000),
};
#undef ROW
extern constinit const unsigned rds_tcp_sysctl_rows = sizeof(rds_tcp_sysctl_table) / sizeof(rds_tcp_sysctl_table[0]);

int rds_tcp_core_init(kapi_module* self)
{
    Own<Module> module(make<Module>(Alloc::sleep));
    if (!module)
        return -KAPI_ENOMEM;
    module->workqueue = kapi_workqueue_create("rds_tcp", 0);
    if (!module->workqueue)
        return -KAPI_ENOMEM;
    module->transport = make_transport(self);
    *kapi_module_slot(KAPI_SLOT_RDS_TCP) = module.release();
    return 0;
}

int rds_tcp_core_publish(void) { return rds_transport_register(&Module::get().transport); }
void rds_tcp_core_withdraw(void) { rds_transport_unregister(&Module::get().transport); }

void rds_tcp_core_exit(void)
{
    Module* module = &Module::get();
    kapi_workqueue_destroy(module->workqueue);
    kapi_rcu_barrier();
    *kapi_module_slot(KAPI_SLOT_RDS_TCP) = nullptr;
    dispose(module);
}

int rds_tcp_net_create(kapi_net* host, rds_tcp_net** net)
{
    auto made = TcpNet::create(host);
    if (!made)
        return made.error().to_c();
    *net = reinterpret_cast<rds_tcp_net*>(*made);
    return 0;
}
void rds_tcp_net_destroy(rds_tcp_net* net) { TcpNet::destroy(reinterpret_cast<TcpNet*>(net)); }
rds_tcp_sysctl* rds_tcp_net_sysctl(rds_tcp_net* net) { return &reinterpret_cast<TcpNet*>(net)->sysctl; }
void rds_tcp_net_sysctl_changed(rds_tcp_net* net) { reinterpret_cast<TcpNet*>(net)->sysctl_changed(); }

} // extern "C"
