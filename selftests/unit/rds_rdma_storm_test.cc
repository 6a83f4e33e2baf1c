// SPDX-License-Identifier: GPL-2.0
// Every call on memory beside every other one, by several threads of each program, while connections break and devices go. What
// must hold is checked by the simulator: nothing is used after its end, unpinned twice, left over or waited for without an end.
#include "rds_rdma_memory_test.h"

namespace {

class RdsRdmaStorm : public RdmaMemoryTest {
protected:
    static constexpr unsigned kThreads = 3, kCalls = 40;
    struct Side {
        Program &program;
        Bytes memory = Bytes(64 * 1024);
        std::vector<kapi_u64> cookies{}; // of regions of this side, maybe freed
    };

    std::uint64_t pick(std::uint64_t below) { return world.random().next() % below; }
    kapi_u64 any_cookie(const Side &side)
    {
        return side.cookies.empty() ? pick(1 << 20) : side.cookies[pick(side.cookies.size())];
    }
    std::string any_bytes() { return contents(pick(3) ? pick(64) : pick(70'000), 1); }

    void get(Side &side)
    {
        kapi_u64 cookie = 0, size = 1 + pick(pick(2) ? 100 : 20'000);
        if (get_mr(side.program, side.memory.data() + pick(4096), size, cookie, pick(4) ? 0 : RDS_ABI_RDMA_USE_ONCE) == 0)
            side.cookies.push_back(cookie);
    }
    void act(Side &side, const Side &other)
    {
        static constexpr int kTypes[] = {RDS_ABI_CMSG_ATOMIC_FADD, RDS_ABI_CMSG_ATOMIC_CSWP, RDS_ABI_CMSG_MASKED_ATOMIC_FADD,
                                         RDS_ABI_CMSG_MASKED_ATOMIC_CSWP};
        rds_abi_atomic_args args{any_cookie(other), place_of(side.memory.data() + 8 * pick(100)), 8 * pick(4),
                                 {1, 2, pick(2) ? ~kapi_u64{0} : 0xff, 0xf0}, pick(2) * RDS_ABI_RDMA_NOTIFY_ME, pick(100)};
        send_with(side.program, Cmsg(kTypes[pick(4)], args), any_bytes(), RDS_ABI_MSG_DONTWAIT);
    }
    void operate_any(Side &side, const Side &other)
    {
        kapi_u64 flags = (pick(2) ? RDS_ABI_RDMA_READWRITE : 0) | (pick(2) ? RDS_ABI_RDMA_NOTIFY_ME : 0) |
                         (pick(3) ? 0 : RDS_ABI_RDMA_SILENT);
        std::vector<rds_abi_iovec> local;
        for (std::uint64_t i = 0, count = 1 + pick(20); i < count; i++)
            local.push_back({place_of(side.memory.data() + pick(30'000)), 1 + pick(200)});
        Operation operation{any_cookie(other), 0, local, flags, pick(100)};
        send_with(side.program, Cmsg(RDS_ABI_CMSG_RDMA_ARGS, operation.args()), pick(2) ? "" : any_bytes(), RDS_ABI_MSG_DONTWAIT);
    }
    void map_and_send(Side &side)
    {
        kapi_u64 cookie = 0;
        rds_abi_get_mr_args map{{place_of(side.memory.data() + pick(1000)), 1 + pick(9000)}, place_of(&cookie), 0};
        if (send_with(side.program, Cmsg(RDS_ABI_CMSG_RDMA_MAP, map), any_bytes(), RDS_ABI_MSG_DONTWAIT) >= 0)
            side.cookies.push_back(cookie);
    }
    void call(Side &side, const Side &other)
    {
        switch (pick(12)) {
        case 0:
        case 1:
            return get(side);
        case 2:
            return static_cast<void>(free_mr(side.program, any_cookie(side)));
        case 3:
            return static_cast<void>(send_with(side.program, Cmsg(RDS_ABI_CMSG_RDMA_DEST, any_cookie(side)), any_bytes(),
                                               RDS_ABI_MSG_DONTWAIT));
        case 4:
            return map_and_send(side);
        case 5:
        case 6:
            return operate_any(side, other);
        case 7:
            return act(side, other);
        case 8: {
            SocketName name(sim::address(side.program.to, kPort));
            return static_cast<void>(side.program.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, 16));
        }
        case 9:
            return world.sleep(pick(20) * sim::kMillisecond);
        default:
            return static_cast<void>(
                receive(side.program, RDS_ABI_MSG_DONTWAIT | (pick(5) ? 0 : RDS_ABI_MSG_PEEK), pick(2) * 256));
        }
    }
    void trouble()
    {
        bool is_a = pick(2) != 0;
        kapi_rdma_dev *&dev = is_a ? dev_a : dev_b;
        switch (pick(4)) {
        case 0:
            cut(true);
            world.run_for(pick(4000) * sim::kMillisecond);
            cut(false);
            break;
        case 1:
            unplug(dev);
            world.run_for(pick(1000) * sim::kMillisecond);
            dev = &sim::plug_rdma((is_a ? a : b).initial_net(), "again", 2, [&](kapi_rdma_attrs &attrs) {
                if (pick(2))
                    attrs.max_read_sge = 1;
            });
            if (pick(2))
                sim::make_bounce(*dev, pick(2) ? SIZE_MAX : 2 << 20);
            break;
        case 2:
            sim::refuse_send(*dev, static_cast<unsigned>(pick(30)));
            break;
        default:
            break;
        }
    }
};

TEST_P(RdsRdmaStorm, of_calls__while_devices_go)
{
    open_both();
    Side sides[] = {{pa}, {pb}};
    std::vector<sim::TaskRef> tasks;
    for (unsigned side = 0; side < 2; side++)
        for (unsigned thread = 0; thread < kThreads; thread++)
            tasks.push_back(spawn(sides[side].program, [&, side] {
                for (unsigned i = 0; i < kCalls; i++)
                    call(sides[side], sides[1 - side]);
            }));
    for (unsigned i = 0; i < 6; i++) {
        world.run_for(pick(300) * sim::kMillisecond);
        trouble();
    }
    EXPECT_TRUE(wait(tasks, 400 * sim::kSecond));
    close(pa);
    close(pb);
    world.run_for(30 * sim::kSecond); // what was posted ends, at the latest with its connection
    EXPECT_EQ(a.pinned_pages, 0u);
    EXPECT_EQ(b.pinned_pages, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaStorm, ::testing::Range(1, 13));

} // namespace
