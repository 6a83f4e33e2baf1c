// SPDX-License-Identifier: GPL-2.0
// Two machines with RDS over RDMA, and a device each.
#pragma once

#include <kapi/errno.h>
#include <kapi/sim/rdma_control.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "inbox.h"
#include "kapi_sim_test.h"
#include "net/rds/uapi.h"
#include "pattern.h"
#include "selftests/sim/rds_host.h"

class RdmaTest : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    static constexpr kapi_u16 kPort = 5000;

    RdmaTest() : SimTest(static_cast<std::uint64_t>(GetParam())), host_a(a), host_b(b)
    {
        dev_a = &sim::plug_rdma(a.initial_net(), "rxe_a");
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
    }
    ~RdmaTest() override
    {
        for (RdsHost *host : {&host_a, &host_b})
            if (host->is_loaded())
                run(host->node(), [&] { EXPECT_TRUE(host->unload_soon()); }, 200 * sim::kSecond);
    }

    void load()
    {
        for (RdsHost *host : {&host_a, &host_b})
            run(host->node(), [&] {
                ASSERT_EQ(host->load_rds(), 0);
                ASSERT_EQ(host->load_rdma(), 0);
            });
    }
    void unplug(kapi_rdma_dev *&dev)
    {
        run(*node_of(dev), [&] { sim::unplug_rdma(*std::exchange(dev, nullptr)); }, 200 * sim::kSecond);
    }
    sim::Node *node_of(const kapi_rdma_dev *dev) { return dev == dev_a ? &a : &b; }
    void cut(bool cut) { world.network().cut(a, b, cut); }

    /** Bytes that differ from message to message and from place to place. */
    static std::string contents(std::size_t size, unsigned number)
    {
        return patterned(size, [=](std::size_t i) { return i * 7 + i / 4096 * 31 + number * 131; });
    }
    /** A number in front, for those that hold one. */
    static std::string numbered(std::size_t size, unsigned number)
    {
        std::string bytes = contents(size, number);
        std::copy_n(reinterpret_cast<const char *>(&number), std::min(size, sizeof(number)), bytes.begin());
        return bytes;
    }

    /** A program with a socket. */
    struct Program {
        Program(RdmaTest &test, RdsHost &host, const char *from, const char *to)
            : test(test), host(host), socket(host), from(from), to(to)
        {
        }
        void open(kapi_u16 port = kPort)
        {
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address(from, port)), 0);
        }
        void send(const std::string &bytes)
        {
            ASSERT_EQ(socket.send(bytes.data(), bytes.size(), sim::address(to, kPort)), static_cast<long>(bytes.size()));
        }
        std::string receive()
        {
            Inbox inbox;
            long size = socket.receive(inbox.data(), inbox.size(), nullptr);
            return size < 0 ? "error " + std::to_string(size) : inbox.text(size);
        }
        RdmaTest &test;
        RdsHost &host;
        RdsSocket socket;
        const char *from, *to;
    };
    Program on_a(const char *from = "10.0.0.1", const char *to = "10.0.0.2") { return {*this, host_a, from, to}; }
    Program on_b(const char *from = "10.0.0.2", const char *to = "10.0.0.1") { return {*this, host_b, from, to}; }
    void open(Program &program, kapi_u16 port = kPort)
    {
        run(program.host.node(), [&] { program.open(port); });
    }
    void close(Program &program)
    {
        run(program.host.node(), [&] { program.socket.close(); });
    }
    sim::TaskRef spawn(Program &program, std::function<void()> body)
    {
        return world.spawn(program.host.node(), "program", std::move(body));
    }
    bool wait(const std::vector<sim::TaskRef> &tasks, std::uint64_t limit_ns = 60 * sim::kSecond)
    {
        return world.run_until(
            [&] { return std::all_of(tasks.begin(), tasks.end(), [](const auto &task) { return task->is_done(); }); }, limit_ns);
    }

    /** The rows of an item of RDS_INFO, as program finds them. */
    template <class Row> std::vector<Row> rows(Program &program, int item)
    {
        std::vector<Row> got(128);
        run(program.host.node(), [&] {
            std::memset(got.data(), 0xa5, got.size() * sizeof(Row)); // what is not written shows
            int length = static_cast<int>(got.size() * sizeof(Row));
            EXPECT_EQ(program.socket.get_option(item, got.data(), &length), static_cast<int>(sizeof(Row)));
            got.resize(static_cast<std::size_t>(length) / sizeof(Row));
        });
        return got;
    }
    kapi_u64 counter(Program &program, const std::string &name)
    {
        for (const auto &row : rows<rds_abi_info_counter>(program, RDS_ABI_INFO_COUNTERS))
            if (name == reinterpret_cast<const char *>(row.name))
                return row.value;
        return ~kapi_u64{0};
    }

    kapi_rdma_dev *dev_a = nullptr, *dev_b = nullptr;
    RdsHost host_a, host_b;
};
