// SPDX-License-Identifier: GPL-2.0
// Programs that send and receive many messages in a call.
#pragma once

#include <kapi/errno.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "rds_test.h"

using Lengths = std::vector<std::uint32_t>;
using Texts = std::vector<std::string>;

constexpr unsigned kNow = RDS_ABI_MSG_DONTWAIT;

inline std::string joined(const Texts &texts) { return std::accumulate(texts.begin(), texts.end(), std::string()); }

inline Lengths lengths_of(const Texts &texts)
{
    Lengths lengths;
    for (const std::string &text : texts)
        lengths.push_back(static_cast<std::uint32_t>(text.size()));
    return lengths;
}

inline Texts some(unsigned count, std::size_t size = 10)
{
    Texts texts;
    for (unsigned i = 0; i < count; i++)
        texts.emplace_back(size + i % 3, static_cast<char>('a' + i % 26));
    return texts;
}

/** Between two machines, and on one. */
class RunsTest : public RdsTest, public ::testing::WithParamInterface<bool> {
public:
    static std::string name_of(const ::testing::TestParamInfo<bool> &way) { return way.param ? "loopback" : "machines"; }

protected:
    RunsTest() : from(host_a), other(host_a), to(loops() ? host_a : host_b)
    {
        run(a, [&] {
            open(from, "10.0.0.1", 5);
            open(other, "10.0.0.1", 6);
        });
        run(there(), [&] {
            open(to, target(), 7);
            set_lengths(1);
        });
    }
    ~RunsTest() override
    {
        run(a, [&] { from.close(), other.close(); });
        run(there(), [&] { to.close(); });
    }
    static bool loops() { return GetParam(); }
    sim::Node &there() { return loops() ? a : b; }
    static const char *target() { return loops() ? "10.0.0.1" : "10.0.0.2"; }
    static kapi_addr target_addr() { return sim::address(target(), 7); }
    static void open(RdsSocket &socket, const char *address, kapi_u16 port)
    {
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address(address, port)), 0);
    }
    void set_lengths(int on) { ASSERT_EQ(to.set_option(RDS_ABI_RECV_LENGTHS, &on, sizeof(on)), 0); }
    void send_singly(RdsSocket &socket, const Texts &texts)
    {
        run(a, [&] {
            for (const std::string &text : texts)
                ASSERT_EQ(send(socket, text, target(), 7), static_cast<long>(text.size()));
        });
        world.run_for(100 * sim::kMillisecond);
    }
    long send_as(const std::string &bytes, const Lengths &lengths, unsigned flags = 0)
    {
        long result = 0;
        run(a, [&] { result = from.send_each(bytes.data(), bytes.size(), target_addr(), lengths, flags); });
        world.run_for(100 * sim::kMillisecond);
        return result;
    }
    RdsSocket::Run receive_run(std::size_t room = 1 << 20, std::size_t control_room = 4096, unsigned flags = kNow)
    {
        RdsSocket::Run got;
        bytes_.assign(room, '\0');
        run(there(), [&] { got = to.receive_run(bytes_.data(), room, flags, control_room); });
        bytes_.resize(got.result > 0 ? std::min(room, static_cast<std::size_t>(got.result)) : 0);
        return got;
    }
    void expect_run(const Texts &texts)
    {
        auto got = receive_run();
        EXPECT_EQ(bytes_, joined(texts));
        EXPECT_EQ(got.lengths, lengths_of(texts));
    }
    void expect_nothing() { EXPECT_EQ(receive_run().result, -KAPI_EAGAIN); }

    RdsSocket from, other, to;
    std::string bytes_; // that were received last
};
