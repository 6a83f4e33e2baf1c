// SPDX-License-Identifier: GPL-2.0
// A path over a transport that notes what it is asked for.
#pragma once

#include "rds_noting_test.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

constexpr kapi_u64 kMs = sim::kMillisecond;

/** A connection over that transport. All bodies run as a program of its host. */
class PathWorker : public SimTest {
protected:
    explicit PathWorker(std::uint64_t seed = 1) : SimTest(seed)
    {
        Noted::present = &noted;
        in_node([&] {
            ASSERT_EQ(host.load(), 0);
            auto &net = *reinterpret_cast<rds::Net *>(host.net().rds);
            rds::Endpoint local{rds::Ip::from(sim::address("10.0.0.1").ip), 0, 0};
            rds::Endpoint remote{rds::Ip::from(sim::address("10.0.0.9").ip), 0, 0};
            auto made = rds::Connection::create(net, transport, local, remote, 0, hw::Alloc::sleep);
            ASSERT_TRUE(made);
            connection = *made;
        });
    }
    ~PathWorker() override
    {
        in_node([&] {
            kill();
            connection = nullptr;
            EXPECT_TRUE(host.unload_soon());
        });
    }
    void in_node(const std::function<void()> &body) { run(a, body); }
    rds::Path &path(unsigned index = 0) { return connection->path(index); }
    void come_up(unsigned index = 0)
    {
        path(index).notify(RDS_PATH_WANTED);
        world.sleep(kMs);
        path(index).notify(RDS_PATH_ESTABLISHED);
        world.sleep(kMs);
        ASSERT_TRUE(path(index).is_up());
    }
    /** As a hawser peer answers over a path. */
    void answers(unsigned index, kapi_u32 generation, kapi_u8 paths = Noted::kPaths)
    {
        rds::Header header{};
        rds::write_handshake(header, generation, static_cast<kapi_u8>(index), 7);
        header.extensions[2] = paths;
        connection->handshake_received(path(index), header, true);
    }
    void kill()
    {
        if (!std::exchange(killed, true))
            connection->kill();
    }
    static rds::Ref<rds::Message> message()
    {
        auto made = rds::Message::internal(1);
        EXPECT_TRUE(made);
        return std::move(*made);
    }

    static constexpr kapi_u32 kSize = sizeof(rds::Header) + 1;
    Noted noted;
    const rds_transport transport = noting_transport();
    RdsHost host{a};
    rds::Ref<rds::Connection> connection;
    bool killed = false;
};

// TCP holds the end of what it has back for up to 200 ms when more was promised.
