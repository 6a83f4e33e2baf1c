// SPDX-License-Identifier: GPL-2.0
// Any user of the peer's host (a stranger) can connect to this host, before the peer or after it: which stream gets messages.
#include "rds_stranger_test.h"

namespace {

TEST_F(Stranger, silent_and_first__makes_room_for_the_peer)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stranger(a), peer(a);
        ASSERT_TRUE(connect(stranger, 0));
        send_later("hello");
        world.sleep(100 * sim::kMillisecond);
        ASSERT_TRUE(connect(peer, 0));
        std::uint64_t began = world.now_ns();
        EXPECT_TRUE(answers_and_hears(peer, "hello"));
        EXPECT_LT(world.now_ns() - began, 1100 * sim::kMillisecond);
        EXPECT_TRUE(only_probes(stranger));
        EXPECT_TRUE(stranger.is_gone());
    });
}

TEST_F(Stranger, silent_and_many__the_peer_has_its_turn)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream strangers[4] = {WireStream(a), WireStream(a), WireStream(a), WireStream(a)}, peer(a);
        for (auto &stranger : strangers)
            ASSERT_TRUE(connect(stranger, 0));
        send_later("hello");
        ASSERT_TRUE(connect(peer, 0));
        ASSERT_TRUE(peer.handshake(false, kGeneration, 0, kMemory));
        ASSERT_TRUE(peer.handshake(true, kGeneration, 0, kMemory));
        EXPECT_TRUE(peer.wait([&] { return !peer.received().empty() && peer.received().back().payload == "hello"; },
                              12 * sim::kSecond));
        for (auto &stranger : strangers)
            EXPECT_TRUE(only_probes(stranger));
    });
}

TEST_F(Stranger, silent_for_ever__gets_nothing)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream stranger(a), peer(a);
        ASSERT_TRUE(connect(stranger, 0));
        send_later("hello");
        EXPECT_TRUE(stranger.wait([&] { return stranger.is_gone(); }, 100 * sim::kSecond));
        EXPECT_TRUE(only_probes(stranger));
        EXPECT_GE(stranger.received().size(), 60u);
        ASSERT_TRUE(connect(peer, 0));
        EXPECT_TRUE(answers_and_hears(peer, "hello"));
    }, 200 * sim::kSecond);
}

// While it has not, a stream that was not answered is not given up at once: its answer may be on the way.
TEST_F(Stranger, comes_during_the_handshake__the_peer_is_given_the_time_to_answer)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream peer(a), stranger(a), another(a);
        ASSERT_TRUE(connect(peer, 0));
        ASSERT_TRUE(peer.handshake(false, kGeneration, 0, kMemory));
        send_later("hello");
        world.sleep(10 * sim::kMillisecond);
        ASSERT_TRUE(connect(stranger, 0));
        world.sleep(900 * sim::kMillisecond);
        ASSERT_TRUE(connect(another, 0)); // it is looked at again who is at the other end
        world.sleep(10 * sim::kMillisecond);
        ASSERT_TRUE(peer.handshake(true, kGeneration, 0, kMemory));
        EXPECT_TRUE(peer.wait([&] { return !peer.received().empty() && peer.received().back().payload == "hello"; }));
        world.sleep(5 * sim::kSecond);
        EXPECT_TRUE(peer.is_usable());
        EXPECT_TRUE(stranger.received().empty());
    });
}

// A peer of the kernel's own that was restarted reconnects while its former streams still exist here. Its ports mean nothing.
TEST_F(Stranger, foreign_peer_restarted__its_new_stream_has_the_old_one_probed)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream old(a), anew(a);
        ASSERT_TRUE(connect(old, 0));
        ASSERT_TRUE(foreign_handshake(old, false, 1, kGeneration));
        world.sleep(100 * sim::kMillisecond);
        world.network().reset(a, b, sim::Sees::first);
        ASSERT_TRUE(connect(anew, 0));
        ASSERT_TRUE(foreign_handshake(anew, false, 1, kNextGeneration));
        EXPECT_TRUE(anew.wait([&] { return anew.received().size() == 2; }, 100 * sim::kMillisecond));
        for (const auto &arrived : anew.received())
            EXPECT_TRUE(is_probe(arrived) || is_reply(arrived));
    });
}

// What has no name does not count as the peer's, whatever its numbers are: the peer's own, sent again, would be taken for old.
TEST_F(Stranger, numbers_messages__the_peers_numbers_are_not_touched)
{
    const kapi_u16 port = port_of_path(0);
    open_socket(port);
    run(a, [&] {
        kapi_u32 memory = 0;
        kapi_u64 number = 0;
        for (kapi_u32 generation : {kapi_u32{0}, kNextGeneration}) {
            WireStream peer(a), stranger(a);
            kapi_u32 before = std::exchange(memory, connect_and_shake_hands(peer));
            EXPECT_TRUE(before == 0 || before == memory);
            EXPECT_TRUE(peer.message(++number, kPeersPort, port, "peer's"));
            world.sleep(10 * sim::kMillisecond);
            peer.close(false);
            world.sleep(sim::kSecond);
            ASSERT_TRUE(connect(stranger, 0));
            if (generation) {
                EXPECT_TRUE(foreign_handshake(stranger, false, 8, generation, false, 1000));
            }
            EXPECT_TRUE(stranger.message(1001, kPeersPort, port, "stranger's"));
            world.sleep(10 * sim::kMillisecond);
            stranger.close(false);
            world.sleep(sim::kSecond);
        }
        EXPECT_EQ(queued(), 4u);
        WireStream peer(a);
        EXPECT_EQ(connect_and_shake_hands(peer), memory);
        for (kapi_u64 again : {number, number + 1})
            EXPECT_TRUE(peer.message(again, kPeersPort, port, "peer's", rds::flag_retransmitted));
        world.sleep(10 * sim::kMillisecond);
        EXPECT_EQ(counted(rds::Stat::recv_drop_old_seq), 1u);
        EXPECT_EQ(queued(), 5u);
        peer.close(true);
    });
}

// What a foreign peer sends over its first path applies to all. On the others a hawser peer may have answered.
TEST_F(Stranger, foreign_over_one_path__what_the_peer_is_sent_over_another_is_not_given_up)
{
    open_socket(port_of_path(1));
    WireStream first(a), second(a), stranger(a);
    run(a, [&] {
        shake_hands(first, 0);
        shake_hands(second, 1);
        first.close(false);
        world.sleep(sim::kSecond);
        second.take();
        second.deaf = true;
    });
    socket.sk().sndbuf = 64 << 20;
    for (int i = 0; i < 600; i++)
        victim_sends(std::string(1000, 'x'));
    run(a, [&] {
        ASSERT_TRUE(connect(stranger, 0));
        ASSERT_TRUE(foreign_handshake(stranger, false, 8, kNextGeneration));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(second.is_usable());
        second.deaf = false;
        second.read_on();
        auto count = [&](bool (*is)(const WireStream::Received &)) {
            return std::ranges::count_if(second.received(), is);
        };
        auto has_data = [](const WireStream::Received &arrived) { return arrived.payload.size() == 1000; };
        EXPECT_TRUE(second.wait([&] { return count(has_data) == 600; }));
        EXPECT_TRUE(second.wait([&] { return count(is_probe) != 0; })); // whose answer shows what it is
        EXPECT_TRUE(second.handshake(true, kGeneration, 1, kMemory));
        EXPECT_TRUE(stranger.wait([&] { return stranger.is_gone(); }));
        second.close(true);
        stranger.close(true);
    });
    EXPECT_EQ(counted(rds::Stat::send_drop_restart), 0u);
}

// A foreign peer that opens a stream has left the one before it. What is said over one path does not make a hawser's stream
// on another one such a stream.
TEST_F(Stranger, foreign_over_one_path__gets_no_other_that_a_hawser_answered)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a), stranger(a), waiting(a);
        shake_hands(first, 0);
        shake_hands(second, 1);
        first.close(false);
        world.sleep(sim::kSecond);
        second.take();
        ASSERT_TRUE(connect(waiting, 1));
        ASSERT_TRUE(connect(stranger, 0));
        ASSERT_TRUE(foreign_handshake(stranger, false, 8, kNextGeneration, true));
        world.sleep(100 * sim::kMillisecond);
        EXPECT_TRUE(stranger.is_usable()); // the peer did not answer, so far: it has the first path
        send_later("hello");
        EXPECT_TRUE(second.wait([&] { return !second.received().empty() && second.received().back().payload == "hello"; }));
        EXPECT_TRUE(second.is_usable());
        EXPECT_TRUE(waiting.received().empty());
        for (const auto &arrived : stranger.received())
            EXPECT_NE(arrived.payload, "hello");
    });
}

// Nor does what is sent to the peer go to the path that the stranger has.
TEST_F(Stranger, foreign_with_one_path__what_goes_to_the_peer_stays_on_the_paths_that_it_answered)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a), stranger(a);
        shake_hands(first, 0);
        shake_hands(second, 1);
        first.close(false);
        world.sleep(sim::kSecond);
        second.take();
        ASSERT_TRUE(connect(stranger, 0));
        ASSERT_TRUE(foreign_handshake(stranger, false, 1, 0, true));
        EXPECT_TRUE(is_probe(second.next(100 * sim::kMillisecond))); // it would be reset if the peer were gone
        send_later("hello");
        EXPECT_EQ(second.next().payload, "hello");
        for (const auto &arrived : stranger.received())
            EXPECT_NE(arrived.payload, "hello");
        // Once the peer has left that path, the stranger is all there is.
        second.close(true);
        world.sleep(100 * sim::kMillisecond);
        send_later("again");
        EXPECT_TRUE(stranger.wait([&] { return !stranger.received().empty() && stranger.received().back().payload == "again"; }));
    });
}

/** Each answers the probes that it hears, for a while. How many there were. */
class Generations : public Stranger {
protected:
    unsigned answer_all(WireStream &peer, WireStream &stranger)
    {
        unsigned probes = 0;
        for (int i = 0; i < 1000; i++) {
            for (const auto &arrived : peer.take())
                if (is_probe(arrived))
                    probes++, peer.handshake(true, kGeneration, 1, kMemory);
            for (const auto &arrived : stranger.take())
                if (is_probe(arrived))
                    probes++, stranger.handshake(true, kNextGeneration, 0, kNextMemory);
            world.sleep(sim::kMillisecond);
        }
        return probes;
    }
};

// To claim another generation is no proof that the peer has restarted.
TEST_F(Generations, claimed_by_a_stranger__the_paths_that_the_peer_answers_stay)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a), stranger(a), waiting(a);
        shake_hands(first, 0);
        shake_hands(second, 1);
        first.close(false);
        world.sleep(sim::kSecond);
        second.take();
        ASSERT_TRUE(connect(stranger, 0));
        ASSERT_TRUE(stranger.handshake(false, kNextGeneration, 0, kNextMemory));
        ASSERT_TRUE(stranger.handshake(true, kNextGeneration, 0, kNextMemory));
        EXPECT_TRUE(is_probe(second.next(100 * sim::kMillisecond))); // it would be reset if the peer were gone
        ASSERT_TRUE(second.handshake(true, kGeneration, 1, kMemory));
        EXPECT_LE(answer_all(second, stranger), 2u); // none because of an answer, or they would not end
        ASSERT_TRUE(connect(waiting, 1));
        world.sleep(5 * sim::kSecond);
        EXPECT_TRUE(second.is_usable());
        send_later("hello");
        EXPECT_TRUE(second.wait([&] { return !second.received().empty() && second.received().back().payload == "hello"; }));
        EXPECT_TRUE(waiting.received().empty());
    });
}

// Each is counted, but all lines of the log share one limit.
TEST_F(Generations, claimed_in_turn__do_not_fill_the_log)
{
    open_socket(port_of_path(0));
    run(a, [&] {
        WireStream peer(a);
        shake_hands(peer, 0);
        for (unsigned i = 0; i < 50; i++)
            ASSERT_TRUE(peer.handshake(false, i % 2 ? kGeneration : kNextGeneration, 0, kMemory));
        world.sleep(100 * sim::kMillisecond);
    });
    EXPECT_EQ(std::count(b.log.begin(), b.log.end(), "rds: 10.0.0.1 has restarted, or another host has its address now"), 1);
}

TEST_F(Generations, of_a_peer_that_did_restart__its_former_streams_end_at_once)
{
    open_socket(port_of_path(1));
    run(a, [&] {
        WireStream first(a), second(a), anew(a);
        shake_hands(first, 0);
        shake_hands(second, 1);
        EXPECT_EQ(world.network().reset(a, b, sim::Sees::first), 2u);
        std::uint64_t began = world.now_ns();
        ASSERT_TRUE(connect(anew, 0));
        ASSERT_TRUE(anew.handshake(false, kNextGeneration, 0, kNextMemory));
        EXPECT_TRUE(anew.wait([&] { return b.live_streams == 1; }));
        EXPECT_LT(world.now_ns() - began, 10 * sim::kMillisecond);
    });
}

// The peer was taken for foreign because of it. The peer could not assign the messages without a name to a sender.
TEST_F(Stranger, foreign__what_goes_without_a_name_after_it_does_not_go_twice)
{
    open_socket(port_of_path(0));
    WireStream peer(a), stranger(a), unnamed(a), named(a);
    unsigned early = 0;
    run(a, [&] {
        shake_hands(peer, 0);
        peer.close(false);
        world.sleep(sim::kSecond);
        ASSERT_TRUE(connect(stranger, 0));
        EXPECT_TRUE(foreign_handshake(stranger, false, 8));
        world.sleep(10 * sim::kMillisecond);
        stranger.close(false);
        world.sleep(sim::kSecond);
        ASSERT_TRUE(connect(unnamed, 0));
        world.sleep(10 * sim::kMillisecond);
    });
    victim_sends_in_vain("once");
    run(a, [&] {
        unnamed.close(true);
        world.sleep(sim::kSecond);
        ASSERT_TRUE(connect(named, 0));
        ASSERT_TRUE(named.handshake(false, kGeneration, 0, kMemory));
        EXPECT_TRUE(named.wait([&] { return !named.received().empty() && is_reply(named.received().back()); }));
        for (const auto &arrived : named.take()) // the victim has no name for it before it has read the probe
            early += arrived.payload == "once";
        ASSERT_TRUE(named.handshake(true, kGeneration, 0, kMemory));
        world.sleep(sim::kSecond);
        for (const auto &arrived : named.take())
            EXPECT_NE(arrived.payload, "once");
        named.close(true);
    });
    EXPECT_EQ(counted(rds::Stat::send_drop_restart) + early, 1u);
}

} // namespace
