// SPDX-License-Identifier: GPL-2.0
// The limits of a multiplexor, as in Documentation/networking/kcm.rst.
#include "kcm_test.h"

#include "net/kcm/mux.h"
#include "net/kcm/socket.h"

namespace {

// To make so many connections takes minutes, so their number is set.
kapi_u32 &connections_of(kcm::Mux &mux);
template <auto Count> struct Exposes {
    friend kapi_u32 &connections_of(kcm::Mux &mux) { return mux.*Count; }
};
template struct Exposes<&kcm::Mux::psock_count_>;

constexpr std::size_t kMostSockets = 65536, kMostConnections = 65536;

constexpr std::size_t kHeadroom = 32 * 1024; // for objects that are not charged

class KcmLimits : public KcmTest {
protected:
    /** Bytes that were charged, and not charged, since the last call. */
    struct Growth {
        long charged, uncharged;
    };
    Growth growth()
    {
        auto charged = static_cast<long>(a.memory().charged_bytes() + a.charged_to_sockets + a.kept_by_core);
        auto uncharged = static_cast<long>(a.uncharged_bytes());
        Growth grown{charged - charged_, uncharged - uncharged_};
        charged_ = charged, uncharged_ = uncharged;
        return grown;
    }

private:
    long charged_ = 0, uncharged_ = 0;
};

// Their bytes are in pages, which the simulator does not count.
TEST_F(KcmLimits, objects_of_messages_to_be_sent__are_charged)
{
    KcmSocket &socket = new_socket();
    open_narrow(socket);
    settle();
    growth();
    long count = 0;
    while (send(socket, framed("x"), KCM_ABI_MSG_DONTWAIT) > 0)
        count++;
    EXPECT_GT(count, 100);
    Growth grown = growth();
    EXPECT_GT(grown.charged, static_cast<long>(kHeadroom));
    EXPECT_LT(grown.uncharged, static_cast<long>(kHeadroom));
}

TEST_F(KcmLimits, incomplete_message__is_charged)
{
    constexpr std::size_t size = 100'000;
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    attach(socket, ends);
    settle();
    growth();
    peer_writes(ends, framed(text(2 * size)).substr(0, size));
    settle();
    Growth grown = growth();
    EXPECT_GT(grown.charged, static_cast<long>(size / 2));
    EXPECT_LT(grown.uncharged, static_cast<long>(kHeadroom));
}

TEST_F(KcmLimits, socket__one_above_the_limit_is_refused_until_another_one_ends)
{
    run(a, [&] {
        std::vector<std::unique_ptr<KcmSocket>> sockets;
        for (std::size_t i = 0; i < kMostSockets; i++) {
            sockets.push_back(std::make_unique<KcmSocket>(host));
            ASSERT_EQ(i ? sockets.back()->open_as_clone(*sockets[0]) : sockets.back()->open(), 0) << i;
        }
        KcmSocket other(host);
        EXPECT_EQ(other.open_as_clone(*sockets[0]), -KAPI_ENFILE);
        sockets.pop_back();
        EXPECT_EQ(other.open_as_clone(*sockets[0]), 0);
        other.close();
    }, 600 * sim::kSecond);
}

TEST_F(KcmLimits, connection__one_above_the_limit_is_refused_until_another_one_ends)
{
    KcmSocket &socket = new_socket();
    Ends first = connect(), second = connect();
    attach(socket, first);
    run(a, [&] {
        kapi_u32 &count = connections_of(*reinterpret_cast<kcm::Socket *>(socket.core())->mux);
        EXPECT_EQ(count, 1u);
        count = kMostConnections;
        EXPECT_EQ(socket.attach(second.here, by_length), -KAPI_ENFILE);
        EXPECT_EQ(socket.attach(second.here, by_length), -KAPI_ENFILE) << "once more";
        EXPECT_EQ(socket.unattach(first.here), 0);
        EXPECT_EQ(socket.attach(second.here, by_length), 0);
        EXPECT_EQ(socket.attach(first.here, by_length), -KAPI_ENFILE);
        count = 1;
    });
}

TEST_F(KcmLimits, connection__that_cannot_be_attached_does_not_count)
{
    KcmSocket &socket = new_socket();
    Ends ends = connect();
    run(a, [&] {
        ASSERT_EQ(socket.open(), 0);
        for (std::size_t i = 0; i <= kMostConnections; i++)
            ASSERT_EQ(socket.attach(-1, by_length), -KAPI_ENOENT) << i;
        EXPECT_EQ(socket.attach(ends.here, by_length), 0);
    }, 600 * sim::kSecond);
}

TEST_F(KcmLimits, message__is_no_longer_than_256_mib_whatever_the_receive_buffer)
{
    constexpr int most = 256 << 20;
    KcmSocket &socket = new_socket();
    for (int length : {most, most + 1}) {
        int filter = -1;
        run(a, [&] { filter = sim::program_filter([length](const unsigned char *, std::size_t) { return length; }); });
        Ends ends = connect();
        run(a, [&] {
            sim::program_set_buffers(ends.here, 0, 2'000'000'000);
            ASSERT_EQ(socket.is_open() ? 0 : socket.open(), 0);
            ASSERT_EQ(socket.attach(ends.here, filter), 0);
        });
        peer_writes(ends, text(10));
        settle();
        EXPECT_EQ(error_of(ends), length > most ? KAPI_EMSGSIZE : 0) << length;
        run(a, [&] { sim::program_close(filter); });
    }
}

} // namespace
