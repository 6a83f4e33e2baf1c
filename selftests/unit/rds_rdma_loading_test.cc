// SPDX-License-Identifier: GPL-2.0
// rds_rdma is loaded, and fails to load at each of its steps, and unloaded, while devices come and go and programs use whatever
// they can reach. The kernel frees the text of a module that fails to load without regard to its references.
#include "net/rds/transport.h"
#include "rds_rdma_memory_test.h"

namespace {

constexpr unsigned kPrograms = 4;
constexpr unsigned kRounds = 10;

class RdsRdmaLoading : public RdmaMemoryTest {
protected:
    void SetUp() override
    {
        a.add_net().add(sim::address("10.9.0.1"));
        for (RdsHost *host : {&host_a, &host_b})
            run(host->node(), [&] { ASSERT_EQ(host->load_rds(), 0); });
        run(b, [&] { ASSERT_EQ(host_b.load_rdma(), 0); });
    }

    /** What an unprivileged program does in a loop. */
    void use(unsigned number)
    {
        alignas(4096) unsigned char memory[4096];
        while (!stopping) {
            Program program = on_a();
            if (program.socket.open() != 0)
                continue; // the failure that was meant for the loader
            program.socket.sk().sndtimeo_ns = sim::kMillisecond;
            int rdma = RDS_ABI_TRANS_IB;
            if (number % 2)
                chosen += program.socket.set_option(RDS_ABI_SO_TRANSPORT, &rdma, sizeof(rdma)) == 0;
            bool bound = program.socket.bind(sim::address(program.from, 0)) == 0;
            refused += !bound;
            if (bound) {
                rds_abi_get_mr_args args{{place_of(memory), sizeof(memory)}, place_of(&cookies[number]), 0};
                sent += program.socket.send("x", 1, sim::address(program.to, 9), RDS_ABI_MSG_DONTWAIT) == 1;
                mapped += send_with(program, Cmsg(RDS_ABI_CMSG_RDMA_MAP, args), "x", RDS_ABI_MSG_DONTWAIT) == 1;
            }
            program.socket.close();
            world.sleep(world.random().below(50 * sim::kMicrosecond));
        }
    }

    void move_devices()
    {
        while (!stopping) {
            world.sleep(world.random().below(20 * sim::kMillisecond));
            sim::unplug_rdma(*std::exchange(dev_a, nullptr));
            world.sleep(world.random().below(100 * sim::kMicrosecond));
            dev_a = &sim::plug_rdma(a.initial_net(), "again");
        }
    }

    /** Runs body while programs spin and devices move. */
    void in_a_storm(const std::function<void()> &body)
    {
        std::vector<sim::TaskRef> tasks{world.spawn(a, "devices", [this] { move_devices(); })};
        for (unsigned i = 0; i < kPrograms; i++)
            tasks.push_back(world.spawn(a, "program", [this, i] { use(i); }));
        run(a, body, 2000 * sim::kSecond);
        stopping = true;
        EXPECT_TRUE(wait(tasks));
        EXPECT_EQ(a.pinned_pages, 0u);
    }

    void unload_rdma_soon()
    {
        bool gone = false;
        for (int i = 0; i < 20'000 && !(gone = host_a.unload_rdma()); i++)
            world.sleep(world.random().below(100 * sim::kMicrosecond));
        ASSERT_TRUE(gone);
    }

    bool stopping = false;
    unsigned sent = 0, refused = 0, chosen = 0, mapped = 0;
    kapi_u64 cookies[kPrograms]{};
};

TEST_P(RdsRdmaLoading, succeeds__again_and_again)
{
    in_a_storm([&] {
        // With some seeds no program finds the moment to have memory mapped for long.
        for (unsigned round = 0; round < kRounds || (!mapped && round < 20 * kRounds); round++) {
            ASSERT_EQ(host_a.load_rdma(), 0);
            world.sleep(10 * sim::kMillisecond);
            unload_rdma_soon();
        }
    });
    EXPECT_GT(sent, kRounds);
    EXPECT_GT(chosen, kRounds);
    EXPECT_GT(refused, kRounds);
    EXPECT_GT(mapped, 0u);
}

TEST_P(RdsRdmaLoading, fails__without_memory_at_each_step)
{
    in_a_storm([&] {
        unsigned failed = 0;
        for (unsigned step = 1; step < 30; step++) {
            a.faults().fail_at = a.faults().count + step;
            if (host_a.load_rdma() == 0)
                unload_rdma_soon();
            else
                failed++;
        }
        a.faults().fail_at = 0;
        EXPECT_GT(failed, 3u);
    });
}

TEST_P(RdsRdmaLoading, fails__where_somebody_listens_on_the_port)
{
    static constexpr kapi_cm_listener_ops ops{.request = [](void *, kapi_cm *, const kapi_cm_offer *, void *, kapi_size *) {
        return 0;
    }};
    in_a_storm([&] {
        for (kapi_u16 port : {kapi_u16{18634}, kapi_u16{16385}}) {
            kapi_addr any = sim::address(port == 16385 ? "::" : "0.0.0.0", port);
            kapi_cm_listener *taken = nullptr;
            ASSERT_EQ(kapi_cm_listen(&a.initial_net(), KAPI_CM_IP, &any, 1, &ops, nullptr, &taken), 0);
            for (unsigned round = 0; round < kRounds; round++)
                ASSERT_EQ(host_a.load_rdma(), -KAPI_EADDRINUSE);
            kapi_cm_listener_close(taken);
        }
    });
    EXPECT_EQ(sent + mapped, 0u);
}

TEST_P(RdsRdmaLoading, fails__when_the_transport_is_taken)
{
    rds_transport other{};
    other.name = "other";
    other.type = RDS_TRANSPORT_IB;
    other.max_paths = 1;
    other.check_local = [](kapi_net *, const kapi_addr *) { return -KAPI_EADDRNOTAVAIL; };
    in_a_storm([&] {
        ASSERT_EQ(rds_transport_register(&other), 0);
        for (unsigned round = 0; round < kRounds; round++)
            ASSERT_EQ(host_a.load_rdma(), -KAPI_EEXIST);
        rds_transport_unregister(&other);
    });
    EXPECT_EQ(sent + mapped, 0u);
}

// What programs do while their memory is read and written by a peer keeps the module; when they are gone, it goes, whatever the
// peer still sends, reads and writes. Then all begins anew.
TEST_P(RdsRdmaLoading, ends__beside_a_peers_operations)
{
    run(a, [&] { ASSERT_EQ(host_a.load_rdma(), 0); });
    Bytes remote(1 << 20), local(1 << 20);
    for (unsigned round = 0; round < 5; round++) {
        pa.socket.close();
        pb.socket.close();
        open_both();
        kapi_u64 cookie = 0;
        run(a, [&] { ASSERT_EQ(get_mr(pa, remote.data(), remote.size(), cookie), 0); });
        unsigned begun = 0;
        bool over = false;
        auto peer = spawn(pb, [&] {
            pb.socket.sk().sndtimeo_ns = sim::kMillisecond;
            while (!over) {
                kapi_u64 flags = RDS_ABI_RDMA_NOTIFY_ME | (begun % 2 ? RDS_ABI_RDMA_READWRITE : 0);
                begun += operate(pb, {cookie, 0, {{place_of(local.data()), local.size()}}, flags}) > 0;
                while (receive(pb, RDS_ABI_MSG_DONTWAIT).result >= 0)
                    ;
                world.sleep(world.random().below(50 * sim::kMicrosecond));
            }
        });
        ASSERT_TRUE(world.run_until([&] { return begun > 4; }, sim::kSecond));
        run(a, [&] {
            EXPECT_FALSE(host_a.unload_rdma()) << "a socket uses it";
            pa.socket.close();
            unload_rdma_soon();
            world.sleep(world.random().below(sim::kMillisecond));
            ASSERT_EQ(host_a.load_rdma(), 0);
        });
        EXPECT_EQ(a.pinned_pages, 0u);
        over = true;
        EXPECT_TRUE(wait({peer}));
        close(pb);
        EXPECT_TRUE(world.run_until([&] { return b.pinned_pages == 0; }, 20 * sim::kSecond));
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaLoading, ::testing::Range(1, 6));

} // namespace
