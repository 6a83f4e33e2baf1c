// SPDX-License-Identifier: GPL-2.0
// What a foreign peer is sent, and what a hostile one can do.
#include "net/rds/connection.h"
#include "net/rds/net.h"
#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "rds_rdma_memory_test.h"
#include "rds_rdma_peer.h"

namespace {

// What the kernel's own must not be sent are handshakes: it has paths for TCP alone, and believes a number of paths.
TEST_P(RdsRdmaPeer, gets_a_map_and_messages_and_no_handshake__if_foreign)
{
    run(a, [&] { program.send("hello"); });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    acknowledge(1);
    world.run_for(3 * sim::kSecond);
    EXPECT_EQ(asked.substr(0, 12), says("10.0.0.1", "10.0.0.2", 3, 1).substr(0, 12));
    ASSERT_EQ(peer.messages.size(), 3u) << "a map of two fragments, and hello";
    for (unsigned i : {0u, 1u}) {
        EXPECT_EQ(header_of(peer.messages[i]).flags, rds::flag_congestion_map);
        EXPECT_EQ(peer.messages[i].size(), sizeof(Header) + 4096);
    }
    Header header = header_of(peer.messages[2]);
    EXPECT_EQ(+header.sequence, 1u);
    EXPECT_EQ(+header.dport, kPort);
    EXPECT_EQ(header.flags, rds::flag_ack_required) << "nothing follows that could bring the acknowledgement";
    EXPECT_EQ(peer.messages[2].substr(sizeof(Header)), "hello");
    Header again = header;
    seal(again);
    EXPECT_EQ(+again.checksum, +header.checksum);
}

// What it is was said when the connection was made.
TEST_P(RdsRdmaPeer, gets_no_handshake__whatever_it_sends_if_foreign)
{
    connect();
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 2; }));
    Header hawsers{}, others{};
    hawsers.sport = others.sport = rds::probe_port;
    rds::write_handshake(hawsers, 0x1001, 0, 0x2001);
    others.sequence = 1;
    for (const Header &header : {hawsers, others, hawsers})
        post(sealed(header));
    run(a, [&] { program.send("hello"); });
    world.run_for(100 * sim::kMillisecond);
    acknowledge(1);
    world.run_for(3 * sim::kSecond);
    bool greeted = false;
    for (const auto &bytes : peer.messages) {
        auto kind = rds::classify(header_of(bytes));
        EXPECT_TRUE(kind && *kind != rds::MessageKind::probe && *kind != rds::MessageKind::probe_reply);
        greeted |= bytes.substr(sizeof(Header)) == "hello";
    }
    EXPECT_TRUE(greeted);
}

// A message that the kernel's own refuses for its checksum is lost: it acknowledges the next one. The sum of this header carries
// in each step of adding it up.
TEST_P(RdsRdmaPeer, gets_a_right_checksum__when_the_sum_carries_in_each_step)
{
    constexpr kapi_u16 port = 60023;
    Program sender = on_a();
    open(sender, port);
    run(a, [&] { sender.send(std::string(255, 'x')); });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    Header header = header_of(peer.messages[2]), again = header;
    EXPECT_EQ(+header.sport, port);
    EXPECT_EQ(+header.length, 255u);
    seal(again);
    EXPECT_EQ(+again.checksum, 0xfeff) << "this is not such a header";
    EXPECT_EQ(+header.checksum, +again.checksum);
    close(sender);
}

TEST_P(RdsRdmaPeer, gets_what_it_did_not_acknowledge_again)
{
    run(a, [&] { program.send("hello"); });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    run(b, [&] { peer.drop(); });
    peer = Peer();
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    Header header = header_of(peer.messages[2]);
    EXPECT_EQ(+header.sequence, 1u);
    EXPECT_EQ(header.flags, rds::flag_ack_required | rds::flag_retransmitted);
    acknowledge(1);
    run(b, [&] { peer.drop(); });
    peer = Peer();
    run(a, [&] { program.send("more"); });
    accept(says("10.0.0.2", "10.0.0.1", 3, 1));
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    EXPECT_EQ(+header_of(peer.messages[2]).sequence, 2u) << "the first one was acknowledged";
}

TEST_P(RdsRdmaPeer, is_acknowledged_soon)
{
    connect();
    post(sealed(data_header(5), "hello"));
    EXPECT_EQ(received(), "hello");
    ASSERT_TRUE(wait_for([&] { return !peer.messages.empty() && +header_of(peer.messages.back()).ack == 1; }));
    Header header = header_of(peer.messages.back());
    EXPECT_EQ(+header.sport, 0);
    EXPECT_EQ(+header.dport, 0);
    EXPECT_EQ(+header.flags, 0);
    EXPECT_EQ(peer.messages.back().size(), sizeof(Header));
}

TEST_P(RdsRdmaPeer, sends_a_message_in_fragments)
{
    connect();
    std::string bytes = contents(4096 + 4096 + 7, 3);
    for (std::size_t at = 0; at < bytes.size(); at += 4096)
        post(sealed(data_header(bytes.size()), bytes.substr(at, 4096)));
    EXPECT_TRUE(received() == bytes);
    EXPECT_FALSE(peer.end);
}

// 257 fragments and those before them are more than the queue has for one message.
TEST_P(RdsRdmaPeer, gets_the_largest_message__behind_small_ones_that_report_nothing)
{
    connect();
    run(a, [&] {
        for (unsigned i = 0; i < 12; i++)
            program.send("small");
    });
    program.socket.sk().sndbuf = 4 << 20;
    auto sender = spawn(program, [&] { program.send(contents(1 << 20, 1)); });
    constexpr unsigned kAll = 12 + 257;
    unsigned again = 0;
    for (unsigned i = 0; i < 2000 && peer.messages.size() < kAll; i++) {
        run(b, [&] {
            for (; again < peer.messages.size(); again++)
                ASSERT_EQ(peer.post_recv(again % Peer::kSlots), 0);
        });
        world.run_for(5 * sim::kMillisecond);
    }
    EXPECT_GE(peer.messages.size(), kAll);
    EXPECT_TRUE(wait({sender}));
}

// A fragment fills the buffers that both have, and of a large message packets with its header. One size is garbage to who expects
// another.
TEST_P(RdsRdmaPeer, takes_fragments_of_several_buffers__if_hawser)
{
    unsigned number = 0;
    for (auto [says_buffers, buffers] : {std::pair{255u, 4u}, {2u, 2u}, {0u, 1u}}) {
        std::string said = says("10.0.0.2", "10.0.0.1", 3, 1);
        said.replace(13, 3, "hw\3");
        said[28] = static_cast<char>(says_buffers);
        const unsigned whole = buffers * 4096, filling = whole - sizeof(Header), most = std::max(3 * 4096u, whole);
        struct Case {
            unsigned size, fragment;
            bool good;
        };
        for (Case with : {Case{1, 1, true}, {most, whole, true}, {most + 1, filling, true}, {1 << 20, filling, true},
                          {most, most > whole ? filling : whole - 1, false}, {most + 1, whole, false}, {most + 1, 4000, false}}) {
            SCOPED_TRACE(std::to_string(with.size) + " in fragments of " + std::to_string(with.fragment));
            number++;
            ask(said);
            ASSERT_TRUE(wait_for([&] { return peer.established; }));
            std::string bytes = contents(with.size, number);
            for (std::size_t at = 0; at < bytes.size() && !peer.end; at += with.fragment)
                post(sealed(data_header(bytes.size(), number), bytes.substr(at, with.fragment)));
            if (with.good) {
                EXPECT_TRUE(received() == bytes);
                EXPECT_FALSE(peer.end);
            } else {
                EXPECT_TRUE(wait_for([&] { return peer.end.has_value(); }));
            }
            run(b, [&] { peer.drop(); });
            peer = Peer();
        }
    }
}

TEST_P(RdsRdmaPeer, is_answered_with_the_version_in_common)
{
    ask(says("10.0.0.2", "10.0.0.1", 4, 1));
    ASSERT_TRUE(wait_for([&] { return peer.established; }));
    EXPECT_EQ(peer.data[8], 4);
    EXPECT_EQ(peer.data[9], 1);
}

TEST_P(RdsRdmaPeer, is_rejected__without_a_version_in_common)
{
    for (auto [major, minor, mask] : {std::array{3, 0, 0}, std::array{4, 2, 4}, std::array{5, 0, 1}, std::array{0, 0, 0}}) {
        ask(says("10.0.0.2", "10.0.0.1", static_cast<unsigned>(major), static_cast<unsigned>(minor),
                 static_cast<unsigned>(mask)));
        ASSERT_TRUE(wait_for([&] { return peer.end.has_value(); }));
        EXPECT_EQ(peer.end->why, KAPI_CM_REJECTED);
        EXPECT_EQ(peer.data.substr(0, 4), std::string("\1\0\0\0", 4));
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
}

TEST_P(RdsRdmaPeer, is_rejected__with_addresses_of_others)
{
    for (auto [from, to] : {std::array{"10.0.0.3", "10.0.0.1"}, std::array{"10.0.0.2", "10.0.0.9"}}) {
        ask(says(from, to, 3, 1));
        ASSERT_TRUE(wait_for([&] { return peer.end.has_value(); }));
        EXPECT_EQ(peer.end->why, KAPI_CM_REJECTED);
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
}

// Each is what no RDS sends: the connection ends, and nothing else happens.
TEST_P(RdsRdmaPeer, is_left__when_it_sends_garbage)
{
    Header wrong_sum = data_header(5), too_long = data_header((1 << 20) + 1), acks_too_much{}, small_map = data_header(100);
    seal(wrong_sum);
    wrong_sum.checksum = static_cast<kapi_u16>(wrong_sum.checksum ^ 0x100);
    acks_too_much.ack = 1000;
    small_map.flags = rds::flag_congestion_map;
    Header large = data_header(10'000), other_length = data_header(9'000), other_number = data_header(10'000, 2);
    std::string page(4096, 'p');
    const std::vector<std::vector<std::string>> all = {
        {std::string(47, 'x')},
        {std::string(reinterpret_cast<const char *>(&wrong_sum), sizeof(wrong_sum)) + "hello"},
        {sealed(too_long, page)},
        {sealed(acks_too_much)},
        {sealed(small_map, std::string(100, 'm'))},
        {sealed(data_header(5), "hell")},
        {sealed(data_header(5), "hello!")},
        {sealed(large, std::string(4095, 'p'))},
        {sealed(large, page), sealed(other_length, page)},
        {sealed(large, page), sealed(other_number, page)},
        {sealed(large, page), sealed(large, page), sealed(large, page)},
        {sealed(data_header(0), "x")},
        {std::string(5000, 'x')},
    };
    for (std::size_t i = 0; i < all.size(); i++) {
        SCOPED_TRACE("garbage " + std::to_string(i));
        connect();
        for (const std::string &bytes : all[i])
            post(bytes);
        EXPECT_TRUE(wait_for([&] { return peer.end.has_value(); }));
        run(b, [&] {
            peer.drop();
            world.sleep(sim::kSecond); // one line of the log in a second
        });
        peer = Peer();
    }
    auto names_fragments = [](const std::string &line) {
        return line.ends_with("sends fragments that do not fit together, its connection ends");
    };
    EXPECT_GE(std::ranges::count_if(a.log, names_fragments), 1);
    connect();
    post(sealed(data_header(4, 50), "good"));
    EXPECT_EQ(received(), "good");
}

TEST_P(RdsRdmaPeer, does_not_fill_the_log__with_garbage)
{
    for (unsigned connections = 0; connections < 3; connections++) {
        connect();
        run(b, [&] {
            for (kapi_u64 i = 0; i < 8; i++)
                ASSERT_EQ(peer.send(std::string(47, 'x'), i, KAPI_WR_SIGNALED), 0);
        });
        EXPECT_TRUE(wait_for([&] { return peer.end.has_value(); }));
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
    EXPECT_EQ(std::count(a.log.begin(), a.log.end(), "rds: 10.0.0.2 sends what is no RDS, its connection ends"), 1);
}

// A device would never begin one, nor what is behind it.
TEST_P(RdsRdmaPeer, is_asked_for_no_read__if_it_answers_none)
{
    struct Memory : RdmaMemoryTest {
        using RdmaMemoryTest::operate, RdmaMemoryTest::Operation, RdmaMemoryTest::receive, RdmaMemoryTest::place_of;
    };
    connect();
    std::string memory(100, 'm');
    run(a, [&] {
        Memory::Operation read{1, 0, {{Memory::place_of(memory.data()), memory.size()}}, RDS_ABI_RDMA_NOTIFY_ME};
        EXPECT_EQ(Memory::operate(program, read), 4);
        program.send("next");
    });
    ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 3; }));
    EXPECT_EQ(peer.messages[2].substr(sizeof(Header)), "next") << "behind the map, and the message of the read is not sent";
    run(a, [&] {
        auto received = Memory::receive(program, RDS_ABI_MSG_DONTWAIT);
        ASSERT_EQ(received.notices.size(), 1u);
        EXPECT_EQ(received.notices[0].status, RDS_ABI_RDMA_OTHER_ERROR);
    });
    EXPECT_FALSE(peer.end);
}

// Credits count in the kernel's own only if each side's private data have some, which its own never have.
TEST_P(RdsRdmaPeer, gets_no_credits__whatever_it_offers)
{
    rds_rdma_net_sysctl(host_a.net().rdma)->flow_control = 1;
    const std::string none(4, '\0');
    constexpr std::size_t kCredit = 24; // of the private data for IPv4
    std::string offers = says("10.0.0.2", "10.0.0.1", 3, 1);
    offers[kCredit + 3] = 4;
    for (bool asks : {false, true}) {
        SCOPED_TRACE(asks);
        if (asks) {
            ask(offers);
            ASSERT_TRUE(wait_for([&] { return peer.established; }));
            EXPECT_EQ(peer.data.substr(kCredit, 4), none);
        }
        for (int i = 0; i < 10; i++)
            run(a, [&] { program.send("hello"); });
        if (!asks) {
            accept(offers);
            EXPECT_EQ(asked.substr(kCredit, 4), none);
        }
        ASSERT_TRUE(wait_for([&] { return peer.messages.size() >= 12; })) << "a map of two fragments, and the ten";
        Header acks{};
        acks.ack = asks ? 20 : 10;
        acks.credit = 3;
        post(sealed(acks));
        for (const std::string &message : peer.messages)
            EXPECT_EQ(+header_of(message).credit, 0);
        EXPECT_FALSE(peer.end);
        run(b, [&] { peer.drop(); });
        peer = Peer();
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaPeer, ::testing::Range(1, 7));

} // namespace
