// SPDX-License-Identifier: GPL-2.0
// The worker of a path with a transport that only notes what it is called for: what is sent, when the stream is looked after
// and read again, and how it is closed.
#include "rds_test.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"

namespace {

constexpr kapi_u64 kMs = sim::kMillisecond;

/** What the transport was called for, and what it answers. */
struct Noted {
    struct Send {
        kapi_u32 bytes;
        bool more;
    };
    std::vector<Send> sent;
    std::vector<std::uint64_t> ticks[2], resumed; // when, and of which path
    std::function<void()> after_send = [] {};
    kapi_u32 sequence = 0;

    static Noted &of(void *state) { return *static_cast<Noted *>(state); }
    static Noted *present;
};
Noted *Noted::present = nullptr;

kapi_s64 note_send(void *state, unsigned int, const kapi_segment *segments, unsigned int count,
                   unsigned int flags, kapi_u32 *end_seq)
{
    Noted &noted = Noted::of(state);
    kapi_u32 bytes = 0;
    for (unsigned int i = 0; i < count; i++)
        bytes += segments[i].length;
    noted.sent.push_back({bytes, (flags & KAPI_STREAM_MORE) != 0});
    noted.after_send();
    *end_seq = noted.sequence += bytes;
    return bytes;
}

rds_transport noting_transport()
{
    rds_transport transport{};
    transport.name = "noting";
    transport.type = RDS_TRANSPORT_TCP;
    transport.max_paths = 2;
    transport.create = [](rds_conn *, kapi_net *, const kapi_addr *, const kapi_addr *, kapi_u8,
                          kapi_alloc_mode) -> void * { return Noted::present; };
    transport.destroy = [](void *) {};
    transport.connect = [](void *, unsigned int) { return 0; };
    transport.established = [](void *, unsigned int) { return 1; };
    transport.adopt = [](void *, unsigned int) { return 0; };
    transport.has_accepted = [](void *, unsigned int) { return RDS_NO_STREAM_WAITS; };
    transport.close = [](void *, unsigned int, rds_close_mode) { return RDS_CLOSED; };
    transport.send = note_send;
    transport.resume = [](void *state, unsigned int) { Noted::of(state).resumed.push_back(kapi_now_ns()); };
    transport.tick = [](void *state, unsigned int path) {
        Noted::of(state).ticks[path].push_back(kapi_now_ns());
        return RDS_TICK_ANSWERED;
    };
    return transport;
}

/** A connection over that transport. All bodies run as a program of its host. */
class PathWorker : public SimTest {
protected:
    PathWorker()
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
            connection->kill();
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
};

// TCP holds the end of what it has back for up to 200 ms when more was promised.
TEST_F(PathWorker, promise_of_more__is_taken_back_when_the_rest_is_cancelled)
{
    in_node([&] {
        come_up();
        ASSERT_EQ(noted.sent.size(), 1u); // a probe and a map
        EXPECT_FALSE(noted.sent[0].more);
        std::vector<rds::Ref<rds::Message>> messages;
        for (unsigned i = 0; i < rds::Batch::max_messages + 4; i++) {
            messages.push_back(message());
            ASSERT_TRUE(path().enqueue(messages.back()));
        }
        noted.after_send = [&] {
            for (auto &queued : messages)
                if (queued->on == rds::Message::On::send)
                    path().cancel(*queued);
        };
        path().answered(7);
        world.sleep(kMs);
        ASSERT_EQ(noted.sent.size(), 3u);
        EXPECT_EQ(noted.sent[1].bytes, rds::Batch::max_messages * kSize);
        EXPECT_TRUE(noted.sent[1].more);
        EXPECT_EQ(noted.sent[2].bytes, 0u);
        EXPECT_FALSE(noted.sent[2].more);
        path().notify(RDS_PATH_SEND); // it is taken back once
        world.sleep(kMs);
        EXPECT_EQ(noted.sent.size(), 3u);
        noted.after_send = [] {};
    });
}

// The timer that bounds an attempt to connect once also served as the first tick of the stream, up to three seconds late.
TEST_F(PathWorker, ticks__begin_with_the_stream)
{
    in_node([&] {
        come_up();
        ASSERT_TRUE(path().enqueue(message()));
        path().answered(7);
        world.sleep(3000 * kMs);
        for (int loss = 0; loss < 5; loss++) {
            path().notify(RDS_PATH_LOST); // while a tick is due
            world.sleep(kMs);
            noted.ticks[0].clear();
            path().notify(RDS_PATH_ESTABLISHED);
            world.sleep(kMs);
            ASSERT_TRUE(path().is_up());
            std::uint64_t up_ns = world.now_ns();
            world.sleep(6000 * kMs);
            ASSERT_GE(noted.ticks[0].size(), 5u);
            for (std::size_t i = 0; i < noted.ticks[0].size(); i++)
                EXPECT_LE(noted.ticks[0][i] - up_ns, (i + 1) * 1010 * kMs) << loss;
        }
    });
}

// The first sender on an idle stream relies on the timer if it is set.
TEST_F(PathWorker, ticks__begin_with_the_first_message)
{
    in_node([&] {
        come_up();
        path().answered(7);
        come_up(1);
        path(1).answered(7);
        world.sleep(10 * kMs);
        EXPECT_TRUE(path(1).drained());
        ASSERT_TRUE(path(1).enqueue(message()));
        path(1).transmit();
        world.sleep(1100 * kMs);
        EXPECT_GE(noted.ticks[1].size(), 1u);
        world.sleep(4000 * kMs);
        EXPECT_GE(noted.ticks[1].size(), 4u);
    });
}

// The peer may be gone since it accepted the stream, and has not answered the probe for which the message waits.
TEST_F(PathWorker, ticks__begin_with_a_message_that_cannot_be_sent_yet)
{
    in_node([&] {
        come_up();
        path().answered(7);
        come_up(1);
        world.sleep(3000 * kMs);
        noted.ticks[1].clear();
        ASSERT_TRUE(path(1).enqueue(message()));
        path(1).transmit();
        world.sleep(4100 * kMs);
        EXPECT_GE(noted.ticks[1].size(), 3u);
    });
}

// What the transport requests for later, in its turn, was once done at the next wake-up of the worker.
TEST_F(PathWorker, retry__comes_in_its_time)
{
    in_node([&] {
        come_up();
        std::uint64_t from_ns = world.now_ns();
        path().retry_later(RDS_PATH_RESUME, 500 * kMs);
        for (int i = 0; i < 40; i++) {
            path().notify(RDS_PATH_SEND);
            world.sleep(10 * kMs);
        }
        EXPECT_EQ(noted.resumed.size(), 0u);
        world.sleep(200 * kMs);
        ASSERT_EQ(noted.resumed.size(), 1u);
        EXPECT_GE(noted.resumed[0] - from_ns, 500 * kMs);
    });
}

} // namespace
