// SPDX-License-Identifier: GPL-2.0
// MSG_ZEROCOPY: notices, with any other options, and the limit of their number.
#include "rds_test.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "net/rds/net.h"

namespace {

constexpr int kTimestampOld = 29;
// CMSG_SPACE() of struct rds_zcopy_cookies, which is what its documentation has programs provide.
constexpr std::size_t kRoomForNotice = 56;

class Zerocopy : public RdsTest {
protected:
    explicit Zerocopy(std::uint64_t seed = 1) : RdsTest(seed), here(host_a), there(host_b)
    {
        run(b, [&] {
            ASSERT_EQ(there.open(), 0);
            ASSERT_EQ(there.bind(sim::address("10.0.0.2", 70)), 0);
        });
        run(a, [&] {
            ASSERT_EQ(here.open(), 0);
            here.sk().zerocopy = true;
            ASSERT_EQ(here.bind(sim::address("10.0.0.1", 5)), 0);
        });
    }
    ~Zerocopy() override
    {
        run(a, [&] { here.close(); });
        run(b, [&] { there.close(); });
    }
    long send_pinned(std::uint32_t cookie)
    {
        return here.send_pinned("hello", 5, sim::address("10.0.0.2", 70), cookie, RDS_ABI_MSG_DONTWAIT);
    }
    static unsigned notices(const Received &received)
    {
        return static_cast<unsigned>(std::count_if(received.control.begin(), received.control.end(), [](const auto &c) {
            return c.type == RDS_ABI_CMSG_ZCOPY_COMPLETION && c.data.size() == sizeof(rds_abi_zcopy_cookies);
        }));
    }

    RdsSocket here, there;
};

TEST_F(Zerocopy, notice__waits_when_a_timestamp_took_its_room)
{
    run(a, [&] {
        here.sk().timestamps = kTimestampOld;
        EXPECT_EQ(send_pinned(77), 5);
    });
    run(b, [&] {
        EXPECT_EQ(receive(there), "hello");
        EXPECT_EQ(send(there, "answer", "10.0.0.1", 5), 6);
    });
    world.run_for(sim::kSecond);
    run(a, [&] {
        Received answer = receive_control(here, kRoomForNotice);
        EXPECT_EQ(answer.result, 6);
        EXPECT_EQ(notices(answer), 0u);
        EXPECT_EQ(answer.control.size(), 1u); // the time, and nothing that is cut off
        Received notice = receive_control(here, kRoomForNotice);
        EXPECT_EQ(notice.result, 0);
        EXPECT_EQ(notices(notice), 1u);
    });
}

TEST_F(Zerocopy, notice__needs_no_more_room_than_it_has_bytes)
{
    run(a, [&] { EXPECT_EQ(send_pinned(77), 5); });
    world.run_for(sim::kSecond);
    run(a, [&] {
        constexpr std::size_t bytes = sizeof(rds_abi_cmsghdr) + sizeof(rds_abi_zcopy_cookies);
        EXPECT_EQ(receive_control(here, bytes - 1).result, -KAPI_EAGAIN);
        EXPECT_EQ(notices(receive_control(here, bytes)), 1u);
    });
}

TEST_F(Zerocopy, flag_and_cookie__come_together)
{
    struct {
        rds_abi_cmsghdr head;
        kapi_u32 cookie;
    } control{{sizeof(rds_abi_cmsghdr) + sizeof(kapi_u32), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COOKIE}, 77};
    unsigned char text[] = "hello";
    SocketName name(sim::address("10.0.0.2", 70));
    auto post = [&](bool with_cookie, unsigned flags) {
        kapi_msg msg{};
        msg.memory = text;
        msg.size = 5;
        rds_send call{&msg, 5, name.bytes, name.size, &control, with_cookie ? control.head.cmsg_len : 0,
                      flags | RDS_ABI_MSG_DONTWAIT};
        return rds_socket_sendmsg(here.core(), &call);
    };
    run(a, [&] {
        EXPECT_EQ(post(false, RDS_ABI_MSG_ZEROCOPY), -KAPI_EINVAL);
        EXPECT_EQ(post(true, 0), -KAPI_EINVAL);
        EXPECT_EQ(post(true, RDS_ABI_MSG_ZEROCOPY), 5);
        EXPECT_EQ(post(false, 0), 5);
        here.sk().zerocopy = false;
        EXPECT_EQ(post(true, RDS_ABI_MSG_ZEROCOPY), -KAPI_EINVAL);
        // What is not copied is not counted.
        EXPECT_EQ(reinterpret_cast<rds::Net *>(host_a.net().rds)->counted(rds::Stat::copy_from_user), 5u);
        world.sleep(sim::kSecond);
    });
}

// Eight cookies are one notice.
TEST_F(Zerocopy, notice__that_could_not_be_copied_stays_and_the_last_one_gets_what_follows)
{
    std::vector<std::uint32_t> sent, got;
    auto post = [&](std::uint32_t count) {
        run(a, [&] {
            for (std::uint32_t i = 0; i < count; i++) {
                sent.push_back(static_cast<std::uint32_t>(sent.size()));
                EXPECT_EQ(send_pinned(sent.back()), 5);
            }
            world.sleep(sim::kSecond);
        });
    };
    auto take = [&](std::vector<std::uint32_t> &cookies) {
        char text[8];
        unsigned flags = 0;
        return here.receive(text, sizeof(text), nullptr, RDS_ABI_MSG_DONTWAIT, &flags, &cookies);
    };
    for (std::uint32_t count : {1u, 9u}) {
        post(count);
        run(a, [&] {
            here.trouble.control_faults = true;
            EXPECT_EQ(take(got), -KAPI_EAGAIN);
            here.trouble.control_faults = false;
        });
        post(1);
        run(a, [&] {
            for (unsigned notices = 0; notices < count / 8 + 1; notices++) {
                std::vector<std::uint32_t> cookies;
                EXPECT_EQ(take(cookies), 0);
                got.insert(got.end(), cookies.begin(), cookies.end());
            }
            EXPECT_EQ(take(got), -KAPI_EAGAIN);
        });
    }
    EXPECT_EQ(got, sent);
}

// A program that takes no notices comes to an end; those that are taken make room for as many.
TEST_F(Zerocopy, notices__that_nobody_takes_are_bounded)
{
    constexpr std::uint32_t kMost = 4096;
    std::uint32_t sent = 0;
    std::size_t memory = 0;
    auto send_until_refused = [&] {
        long result = 0;
        run(a, [&] {
            for (std::uint32_t tries = 0; tries < 3 * kMost && result != -KAPI_ENOMEM; tries++) {
                result = send_pinned(sent);
                if (result == -KAPI_EAGAIN || result == -KAPI_ENOBUFS)
                    world.sleep(sim::kMillisecond);
                else
                    sent += result == 5;
            }
        });
        return result;
    };
    auto reader = world.spawn(b, "reader", [&] {
        there.sk().rcvtimeo_ns = 2 * sim::kSecond;
        while (receive(there).find("error") == std::string::npos)
            ;
    });
    EXPECT_EQ(send_until_refused(), -KAPI_ENOMEM);
    EXPECT_EQ(sent, kMost);
    world.run_for(sim::kSecond);
    memory = a.memory().bytes();
    EXPECT_LT(memory, 512u << 10);
    run(a, [&] { EXPECT_EQ(notices(receive_control(here)), 1u); }); // eight cookies
    EXPECT_EQ(send_until_refused(), -KAPI_ENOMEM);
    EXPECT_EQ(sent, kMost + 8);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 20 * sim::kSecond));
}

// A call that fails leaves no notice behind, nor a place that one would have.
TEST_F(Zerocopy, notice__of_a_failed_call_is_not_counted)
{
    run(a, [&] {
        for (std::uint32_t i = 0; i < 5000; i++) {
            here.trouble.fault_at = 0;
            ASSERT_EQ(send_pinned(i), -KAPI_EFAULT);
        }
        EXPECT_EQ(send_pinned(1), 5);
    });
    world.network().cut(a, b);
    run(a, [&] {
        here.sk().sndbuf = 4096;
        std::uint32_t i = 2;
        while (send_pinned(i) == 5)
            i++;
        for (std::uint32_t last = i + 5000; i < last; i++)
            ASSERT_EQ(send_pinned(i), -KAPI_EAGAIN);
    });
    world.network().cut(a, b, false);
    run(a, [&] {
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(send_pinned(1), 5);
    });
}

class ZerocopyThreads : public Zerocopy, public ::testing::WithParamInterface<int> {
protected:
    ZerocopyThreads() : Zerocopy(static_cast<std::uint64_t>(GetParam())) {}
    void open_again()
    {
        here.close();
        ASSERT_EQ(here.open(), 0);
        here.sk().zerocopy = true;
        ASSERT_EQ(here.bind(sim::address("10.0.0.1", 5)), 0);
    }
};

// The account of notices is made with the first message; one that was counted by another account would be taken off this one.
TEST_P(ZerocopyThreads, first_messages_of_two_threads__are_counted_by_one_account)
{
    for (int round = 0; round < 10; round++) {
        run(a, [&] { open_again(); });
        for (std::uint32_t cookie : {1u, 2u})
            world.spawn(a, "sender", [this, cookie] { EXPECT_EQ(send_pinned(cookie), 5); });
        world.run_for(100 * sim::kMillisecond);
        run(b, [&] { EXPECT_EQ(receive(there) + receive(there), "hellohello"); });
        world.run_for(100 * sim::kMillisecond);
        run(a, [&] {
            while (notices(receive_control(here)))
                ;
            EXPECT_EQ(send_pinned(3), 5);
        });
        run(b, [&] { EXPECT_EQ(receive(there), "hello"); });
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ZerocopyThreads, ::testing::Range(1, 11));

} // namespace
