// SPDX-License-Identifier: GPL-2.0
// The table of operations of RDS over RDMA, and the C functions that the glue calls.
#include "connection.h"
#include "glue/rds_rdma_core.h"
#include "net.h"

using namespace rds_rdma;

namespace {

RdmaConnection& connection_of(void* state) { return *static_cast<RdmaConnection*>(state); }

Result<rds_mr*> get_mr(const Ref<Registrar>& registrar, const rds_memory& memory, u32& key)
{
    Ref<UserRegion> region = TRY(UserRegion::create(registrar->place(), memory));
    auto valid = memory.pin ? registrar->make_valid(*region) : Result<>();
    if (!valid) {
        region->give_up();
        return fail(valid.error());
    }
    key = region->key();
    return reinterpret_cast<rds_mr*>(region.leak());
}

int get_local(void* held, u64 address, usize bytes, int write, u32 user, rds_mr** mr)
{
    auto made = UserRegion::create_local(static_cast<Registrar*>(held)->place(), {nullptr, address, bytes, user}, write);
    if (!made)
        return made.error().to_c();
    *mr = reinterpret_cast<rds_mr*>(made->leak());
    return 0;
}

void free_mr(rds_mr* mr)
{
    auto region = Ref<UserRegion>::adopt(reinterpret_cast<UserRegion*>(mr));
    region->end();
}

constexpr rds_transport make_transport(kapi_module* owner)
{
    return {
        .name = "infiniband", // as the kernel's own shows it
        .type = RDS_TRANSPORT_IB,
        .owner = owner,
        .max_paths = 1,
        .zerocopy = 0,
        .names_peer = 1,
        .check_local = [](kapi_net* host, const kapi_addr* addr) -> int {
            RdmaNet* net = Module::get().find(host);
            return net ? net->check_local(*addr) : -KAPI_EADDRNOTAVAIL;
        },
        .socket_bound = [](kapi_net* host) -> int {
            RdmaNet* net = Module::get().find(host);
            return net ? net->socket_bound() : -KAPI_EADDRNOTAVAIL;
        },
        .socket_closed = [](kapi_net* host) {
            if (RdmaNet* net = Module::get().find(host))
                net->socket_closed();
        },
        .map_tos = [](u8 tos) -> u8 { return tos; },
        .create = [](rds_conn* conn, kapi_net* host, const kapi_addr* local, const kapi_addr* remote, u8 tos,
                     kapi_alloc_mode mode) -> void* {
            RdmaNet* net = Module::get().find(host);
            return net ? RdmaConnection::create(conn, *net, *local, *remote, tos, static_cast<Alloc>(mode)) : nullptr;
        },
        .destroy = [](void* state) { RdmaConnection::destroy(static_cast<RdmaConnection*>(state)); },
        .connect = [](void* state, unsigned) { return connection_of(state).connect(); },
        .established = [](void* state, unsigned) { return connection_of(state).established(); },
        .adopt = [](void* state, unsigned) { return connection_of(state).adopt(); },
        .has_accepted = [](void* state, unsigned) { return connection_of(state).has_accepted(); },
        .close = [](void* state, unsigned, rds_close_mode) { return connection_of(state).close(); },
        .send = nullptr,
        .post = [](void* state, unsigned, rds_out* const* messages,
                   unsigned count) { return connection_of(state).post(messages, count); },
        .pin = kapi_pin_user,
        .unpin = kapi_unpin,
        .pin_pages = kapi_pin_pages,
        .check_atomic = [](void* state, rds_rdma_kind kind) { return connection_of(state).check_atomic(kind); },
        .hold = [](void* state) -> void* { return connection_of(state).hold().leak(); },
        .let_go = [](void* held) { static_cast<Registrar*>(held)->unref(); },
        .get_mr = [](void* held, const rds_memory* memory, u32* key, rds_mr** mr) -> int {
            auto made = get_mr(Ref<Registrar>::adopt(static_cast<Registrar*>(held)), *memory, *key);
            if (!made)
                return made.error().to_c();
            *mr = *made;
            return 0;
        },
        .get_local = get_local,
        .put_local = [](rds_mr* mr) { reinterpret_cast<UserRegion*>(mr)->end_soon(); },
        .end_mr = [](rds_mr* mr) { reinterpret_cast<UserRegion*>(mr)->end(); },
        .free_mr = free_mr,
        .sync_mr = [](rds_mr* mr, int to_peers) {
            reinterpret_cast<UserRegion*>(mr)->sync(to_peers ? KAPI_MAP_FOR_DEVICE : KAPI_MAP_FOR_CPU);
        },
        .resume = [](void* state, unsigned) { connection_of(state).resume(); },
        .tick = [](void* state, unsigned) {
            connection_of(state).tick();
            return RDS_TICK_ANSWERED; // the device itself finds out that the peer is gone
        },
        .counters = static_cast<unsigned>(Stat::count),
        .counter_names = stat_names,
        .counter = [](kapi_net* host, unsigned index) -> u64 {
            RdmaNet* net = Module::get().find(host);
            return net ? net->counters.counted(index) : 0;
        },
        .socket_row = nullptr,
        .rdma_row = [](void* state, unsigned, rds_rdma_row* row) { *row = connection_of(state).row(); },
    };
}

} // namespace

extern "C" {

// The bounds of the kernel's own.
#define ROW(field, low, high) {#field, offsetof(rds_rdma_sysctl, field), sizeof(rds_rdma_sysctl::field), low, high}
extern constinit const rds_rdma_sysctl_row rds_rdma_sysctl_table[] = {
    ROW(max_send_wr, 1, 0xffffffff),
    ROW(max_recv_wr, 1, 0xffffffff),
    ROW(max_unsignaled_wr, 1, most_unsignaled),
    ROW(max_recv_allocation, 0, ~0ul),
    ROW(flow_control, 0, 0x7fffffff),
};
#undef ROW
extern constinit const unsigned rds_rdma_sysctl_rows = sizeof(rds_rdma_sysctl_table) / sizeof(rds_rdma_sysctl_table[0]);

int rds_rdma_core_init(kapi_module* self)
{
    Own<Module> module(make<Module>(Alloc::sleep));
    if (!module)
        return -KAPI_ENOMEM;
    module->workqueue = kapi_workqueue_create("rds_rdma", 0);
    if (!module->workqueue)
        return -KAPI_ENOMEM;
    module->transport = make_transport(self);
    if (auto watched = module->devices.watch(); !watched) {
        kapi_workqueue_destroy(module->workqueue);
        return watched.error().to_c();
    }
    *kapi_module_slot(KAPI_SLOT_RDS_RDMA) = module.release();
    return 0;
}

int rds_rdma_core_publish(void) { return rds_transport_register(&Module::get().transport); }
void rds_rdma_core_withdraw(void) { rds_transport_unregister(&Module::get().transport); }

void rds_rdma_core_exit(void)
{
    Module* module = &Module::get();
    module->devices.unwatch();
    kapi_workqueue_destroy(module->workqueue);
    kapi_rcu_barrier();
    *kapi_module_slot(KAPI_SLOT_RDS_RDMA) = nullptr;
    dispose(module);
}

int rds_rdma_net_create(kapi_net* host, rds_rdma_net** net)
{
    auto made = RdmaNet::create(host);
    if (!made)
        return made.error().to_c();
    *net = reinterpret_cast<rds_rdma_net*>(*made);
    return 0;
}
void rds_rdma_net_destroy(rds_rdma_net* net) { RdmaNet::destroy(reinterpret_cast<RdmaNet*>(net)); }
rds_rdma_sysctl* rds_rdma_net_sysctl(rds_rdma_net* net)
{
    return &reinterpret_cast<RdmaNet*>(net)->sysctl;
}

} // extern "C"
