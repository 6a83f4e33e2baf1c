// SPDX-License-Identifier: GPL-2.0
// A peer closes its side of a stream and leaves messages sent with MSG_ZEROCOPY unread. When the program is notified that its
// memory is free, TCP must not have it any more.
#include "rds_peer_test.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

namespace {

class ZerocopyOrphan : public PeerTest {
protected:
    static constexpr std::size_t kSize = 60'000;
    static constexpr unsigned kMessages = 8;

    ZerocopyOrphan()
    {
        open_socket(port_of_path(0));
        run(b, [&] {
            socket.sk().zerocopy = true;
            socket.sk().sndbuf = 4 << 20;
        });
    }
    /** The peer reads nothing of them, and its window is closed. */
    void send_unread(WireStream &stream)
    {
        shake_hands(stream, 0);
        stream.deaf = true;
        run_victim([&] {
            for (unsigned i = 0; i < kMessages; i++)
                ASSERT_EQ(socket.send_pinned(memory.data() + i * kSize, kSize, sim::address("10.0.0.1", kPeersPort), i + 1,
                                             RDS_ABI_MSG_DONTWAIT),
                          static_cast<long>(kSize));
        });
        world.sleep(sim::kSecond);
    }
    void cancel()
    {
        unsigned char name[16] = {2, 0, kPeersPort >> 8, kPeersPort & 0xff, 10, 0, 0, 1};
        run_victim([&] { EXPECT_EQ(socket.set_option(RDS_ABI_CANCEL_SENT_TO, name, sizeof(name)), 0); });
    }
    /** A program that uses its memory for something else as soon as it may. The number of notices. */
    unsigned use_again()
    {
        unsigned notices = 0;
        run_victim([&] {
            rds_abi_zcopy_cookies cookies{};
            unsigned char buffer[8];
            kapi_msg msg{};
            msg.memory = buffer;
            msg.size = sizeof(buffer);
            msg.control_room = 256;
            rds_receive call{};
            call.msg = &msg;
            call.size = sizeof(buffer);
            call.flags = RDS_ABI_MSG_DONTWAIT;
            if (rds_socket_recvmsg(socket.core(), &call) < 0 || msg.control.empty())
                return;
            const auto &data = msg.control.front().data;
            std::memcpy(&cookies, data.data(), std::min(data.size(), sizeof(cookies)));
            notices = cookies.num;
            for (unsigned i = 0; i < cookies.num; i++)
                std::fill_n(memory.data() + (cookies.cookies[i] - 1) * kSize, kSize, 'S');
        });
        return notices;
    }
    /** Those before it that TCP had acknowledged on the earlier stream are not sent again. */
    static bool has_last(const WireStream &stream)
    {
        return !stream.received().empty() && kapi_u64{stream.received().back().header.sequence} == kMessages;
    }
    void run_victim(const std::function<void()> &body)
    {
        auto task = world.spawn(b, "program", body);
        while (!task->is_done())
            world.sleep(sim::kMillisecond);
    }

    std::string memory = std::string(kSize * kMessages, 'x');
};

TEST_F(ZerocopyOrphan, given_up__is_not_sent_after_the_notice)
{
    run(a, [&] {
        WireStream stream(a);
        send_unread(stream);
        cancel();
        stream.shut();
        world.sleep(10 * sim::kSecond);
        EXPECT_EQ(use_again(), kMessages);
        stream.read_on();
        world.sleep(10 * sim::kSecond);
    });
}

TEST_F(ZerocopyOrphan, sent_again__is_not_sent_after_the_notice)
{
    run(a, [&] {
        WireStream stream(a), next(a);
        send_unread(stream);
        stream.shut();
        world.sleep(sim::kSecond);
        shake_hands(next, 0);
        EXPECT_TRUE(next.wait([&] { return has_last(next); }));
        world.sleep(sim::kSecond);
        EXPECT_EQ(use_again(), kMessages);
        stream.read_on();
        world.sleep(10 * sim::kSecond);
    });
}

} // namespace
