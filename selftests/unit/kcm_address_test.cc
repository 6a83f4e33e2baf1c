// SPDX-License-Identifier: GPL-2.0
// Messages for one connection: a peer that does not read delays no message for another one. How soon is in simulated time.
#include "kcm_test.h"

namespace {

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT, kBatch = KCM_ABI_MSG_BATCH;
constexpr std::uint64_t kSoon = 5 * sim::kMillisecond; // to the other machine and back takes less

class KcmAddress : public KcmTest {
protected:
    struct Client {
        Ends ends;
        std::uint64_t id;
    };
    Client attach(KcmSocket &socket, const Ends &ends)
    {
        Client client{ends, 0};
        run(a, [&] {
            int err = socket.is_open() ? 0 : socket.open();
            ASSERT_EQ(err, 0);
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
            std::int64_t id = socket.id_of(ends.here);
            EXPECT_GT(id, 0);
            client.id = static_cast<std::uint64_t>(id);
        });
        return client;
    }
    Client attach_stalled(KcmSocket &socket) { return attach(socket, connect_narrow()); }
    Client attach_healthy(KcmSocket &socket) { return attach(socket, connect()); }
    long send_to(KcmSocket &socket, const Client &client, const std::string &message, unsigned flags = kNow)
    {
        return send(socket, message, flags, client.id);
    }
    /** Sends to a client that does not read until it is refused. How many. */
    unsigned fill(KcmSocket &socket, const Client &client, const std::string &message)
    {
        unsigned sent = 0;
        for (bool more = true; more; settle())
            for (more = false; send_to(socket, client, message) == static_cast<long>(message.size()); more = true)
                sent++;
        return sent;
    }
    /** These bytes reach the client within the time. */
    void expect_soon(const Client &client, const std::string &bytes, std::uint64_t limit_ns = kSoon)
    {
        auto got = std::make_shared<std::string>();
        auto reader = world.spawn(b, "reader", [=] { *got = read(client.ends.there, bytes.size()); });
        EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, limit_ns));
        EXPECT_EQ(*got, bytes);
    }
};

TEST_F(KcmAddress, stalled_client__delays_no_other)
{
    KcmSocket &socket = new_socket();
    Client stalled = attach_stalled(socket);
    std::vector<Client> healthy;
    for (unsigned i = 0; i < 8; i++)
        healthy.push_back(attach_healthy(socket));
    run(a, [&] { socket.sk().sndbuf = 50'000; });
    std::string answer = framed(text(9996));
    unsigned waiting = fill(socket, stalled, answer);
    EXPECT_GE(waiting, 5u);
    for (unsigned round = 0; round < 10; round++)
        for (const Client &client : healthy) {
            EXPECT_EQ(send_to(socket, client, answer), 10'000);
            expect_soon(client, answer);
        }
    // A batch, whose first message is for the stalled one, once it has room.
    EXPECT_EQ(peer_reads(stalled.ends, 2 * answer.size()), answer + answer);
    settle();
    EXPECT_EQ(send_to(socket, stalled, answer, kNow | kBatch), 10'000);
    for (const Client &client : healthy)
        EXPECT_EQ(send_to(socket, client, answer, kNow | (&client == &healthy.back() ? 0 : kBatch)), 10'000);
    for (const Client &client : healthy)
        expect_soon(client, answer);
    // What waited for the stalled one is whole and in order.
    for (unsigned i = 0; i < waiting - 1; i++)
        EXPECT_EQ(peer_reads(stalled.ends, answer.size()), answer);
}

TEST_F(KcmAddress, stalled_client__delays_no_message_without_an_address)
{
    KcmSocket &socket = new_socket();
    Client stalled = attach_stalled(socket), healthy = attach_healthy(socket);
    EXPECT_EQ(send_to(socket, stalled, framed(text(30'000))), 30'004);
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_EQ(send(socket, framed("for anybody"), kNow), 15);
        expect_soon(healthy, framed("for anybody"));
    }
}

TEST_F(KcmAddress, stalled_client__delays_no_other_worker)
{
    // Each worker has an answer for the stalled client, which only one of them can begin to send.
    KcmSocket &socket = new_socket();
    Client stalled = attach_stalled(socket), healthy = attach_healthy(socket);
    std::vector<KcmSocket *> workers{&socket};
    for (unsigned i = 0; i < 3; i++) {
        workers.push_back(&new_socket());
        run(a, [&] { ASSERT_EQ(workers.back()->open_as_clone(socket), 0); });
    }
    std::string answer = framed(text(30'000));
    for (KcmSocket *worker : workers) {
        EXPECT_EQ(send_to(*worker, stalled, answer), 30'004);
        EXPECT_EQ(send_to(*worker, healthy, framed("answer")), 10);
        expect_soon(healthy, framed("answer"));
    }
    for (unsigned i = 0; i < workers.size(); i++)
        EXPECT_EQ(peer_reads(stalled.ends, answer.size()), answer);
}

TEST_F(KcmAddress, full_queue__refuses_only_messages_for_its_client)
{
    KcmSocket &socket = new_socket();
    Client stalled = attach_stalled(socket), healthy = attach_healthy(socket);
    run(a, [&] { socket.sk().sndbuf = 20'000; });
    std::string answer = framed(text(9996));
    unsigned waiting = fill(socket, stalled, answer);
    run(a, [&] { EXPECT_TRUE(socket.poll() & KAPI_OUT); }); // there is room for others
    auto writer = world.spawn(a, "writer", [&] {
        EXPECT_EQ(socket.send(answer.data(), answer.size(), 0, stalled.id), 10'000);
    });
    world.run_for(30 * sim::kSecond);
    EXPECT_FALSE(writer->is_done());
    EXPECT_EQ(send_to(socket, healthy, answer), 10'000);
    expect_soon(healthy, answer);
    EXPECT_EQ(socket.sk().signals_out, 0u);
    auto reader = world.spawn(b, "reader", [&] {
        for (unsigned i = 0; i < waiting + 1; i++)
            EXPECT_EQ(read(stalled.ends.there, answer.size()), answer);
    });
    EXPECT_TRUE(world.run_until([&] { return writer->is_done(); }, 100 * sim::kMillisecond));
    EXPECT_GE(socket.sk().signals_out, 1u);
    EXPECT_TRUE(world.run_until([&] { return reader->is_done(); }, 10 * sim::kSecond));
}

TEST_F(KcmAddress, larger_buffer__is_signalled_to_who_was_refused)
{
    KcmSocket &socket = new_socket();
    Client stalled = attach_stalled(socket);
    run(a, [&] { socket.sk().sndbuf = 20'000; });
    std::string answer = framed(text(9996));
    fill(socket, stalled, answer);
    EXPECT_EQ(socket.sk().signals_out, 0u);
    for (unsigned i = 1; i <= 2; i++) {
        run(a, [&] { socket.set_sndbuf(500'000); });
        EXPECT_EQ(socket.sk().signals_out, 1u); // once
    }
    EXPECT_EQ(send_to(socket, stalled, answer), 10'000);
}

TEST_F(KcmAddress, all_queues__have_a_limit_together)
{
    constexpr unsigned kShare = 64, kSndbuf = 5000, kSize = 20'000; // as Socket::addressed_share
    constexpr unsigned kEnough = kShare * kSndbuf / kSize;
    KcmSocket &socket = new_socket();
    std::vector<Client> stalled;
    for (unsigned i = 0; i < 2 * kEnough; i++)
        stalled.push_back(attach_stalled(socket));
    Client healthy = attach_healthy(socket);
    run(a, [&] { socket.sk().sndbuf = kSndbuf; });
    std::string answer = framed(text(kSize - 4));
    unsigned sent = 0;
    for (bool more = true; more; settle()) // TCP takes a part of each
        for (more = false; sent < stalled.size() && send_to(socket, stalled[sent], answer) == kSize; more = true)
            sent++;
    EXPECT_GE(sent, kEnough - 1);
    EXPECT_LT(sent, 2 * kEnough);
    EXPECT_EQ(send_to(socket, healthy, answer), -KAPI_EAGAIN);
    auto signals = socket.sk().signals_out;
    // Messages without an address have their own limit, which poll() reports.
    run(a, [&] { EXPECT_TRUE(socket.poll() & KAPI_OUT); });
    EXPECT_EQ(send(socket, "for anybody", kNow), 11);
    auto writer = world.spawn(a, "writer", [&] {
        EXPECT_EQ(socket.send(answer.data(), answer.size(), 0, healthy.id), kSize);
    });
    world.run_for(sim::kSecond);
    EXPECT_FALSE(writer->is_done());
    EXPECT_EQ(socket.sk().signals_out, signals);
    // Who waits is woken by room in any queue.
    for (unsigned i = 0; i < 2; i++)
        EXPECT_EQ(peer_reads(stalled[i].ends, kSize), answer);
    EXPECT_TRUE(world.run_until([&] { return writer->is_done(); }, kSoon));
    EXPECT_EQ(socket.sk().signals_out, signals + 1);
}

TEST_F(KcmAddress, many_clients__are_answered_in_one_batch)
{
    // More queues than the transmitter has steps: its work continues.
    KcmSocket &socket = new_socket();
    std::vector<Client> clients;
    for (unsigned i = 0; i < 100; i++)
        clients.push_back(attach_healthy(socket));
    for (const Client &client : clients)
        EXPECT_EQ(send_to(socket, client, framed("answer"), &client == &clients.back() ? 0 : kBatch), 10);
    for (const Client &client : clients)
        expect_soon(client, framed("answer"));
}

TEST_F(KcmAddress, order__is_kept_for_each_client)
{
    KcmSocket &socket = new_socket();
    Client first = attach_stalled(socket), second = attach_stalled(socket);
    std::string sent[2];
    for (unsigned i = 0; i < 40; i++)
        for (const Client *client : {&first, &second}) {
            std::string message = framed(text(1000 + i, i));
            EXPECT_EQ(send_to(socket, *client, message), static_cast<long>(message.size()));
            sent[client == &second] += message;
        }
    EXPECT_EQ(peer_reads(second.ends, sent[1].size()), sent[1]);
    EXPECT_EQ(peer_reads(first.ends, sent[0].size()), sent[0]);
}

TEST_F(KcmAddress, connection__that_is_parked_at_the_same_socket_is_taken)
{
    KcmSocket &socket = new_socket();
    Client client = attach_healthy(socket);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(send(socket, framed("for anybody"), kNow), 15); // stays parked
        expect_soon(client, framed("for anybody"));
        EXPECT_EQ(send_to(socket, client, framed("for you")), 11);
        expect_soon(client, framed("for you"));
    }
}

TEST_F(KcmAddress, part_of_a_message__goes_where_its_beginning_does)
{
    KcmSocket &socket = new_socket();
    Client other = attach_healthy(socket), client = attach_healthy(socket);
    EXPECT_EQ(send_to(socket, client, "begun ", KCM_ABI_MSG_MORE), 6);
    EXPECT_EQ(send(socket, "ended", kNow), 5);
    expect_soon(client, "begun ended");
    EXPECT_FALSE(peer_has_unread(other.ends));
}

// What waits for a client has a limit, whatever of it was sent while a message was being built.
TEST_F(KcmAddress, part_of_a_message__waits_with_those_that_come_after_it)
{
    KcmSocket &socket = new_socket();
    Client client = attach_stalled(socket);
    run(a, [&] { socket.sk().sndbuf = 50'000; });
    std::string answer = framed(text(9996));
    unsigned most = fill(socket, client, answer);
    EXPECT_EQ(peer_reads(client.ends, 2 * answer.size()).size(), 2 * answer.size());
    settle();
    EXPECT_EQ(send_to(socket, client, answer.substr(0, 5000), KCM_ABI_MSG_MORE), 5000);
    EXPECT_EQ(peer_reads(client.ends, (most - 2) * answer.size()).size(), (most - 2) * answer.size());
    settle(); // nothing of it waits any more, but the part
    EXPECT_EQ(send_to(socket, client, answer.substr(5000)), 5000);
    EXPECT_EQ(fill(socket, client, answer), most - 1);
}

TEST_F(KcmAddress, part_for_another_connection__is_refused)
{
    KcmSocket &socket = new_socket();
    Client client = attach_healthy(socket), other = attach_healthy(socket);
    EXPECT_EQ(send_to(socket, client, "begun ", KCM_ABI_MSG_MORE), 6);
    EXPECT_EQ(send_to(socket, other, "secret"), -KAPI_EINVAL);
    EXPECT_EQ(send_to(socket, client, "and "), 4); // it names the same one, and ends the message
    expect_soon(client, "begun and ");
    EXPECT_EQ(send(socket, "for anybody ", KCM_ABI_MSG_MORE), 12);
    EXPECT_EQ(send_to(socket, client, "secret"), -KAPI_EINVAL);
    EXPECT_EQ(send(socket, ".", kNow), 1);
    settle();
    EXPECT_NE(peer_has_unread(client.ends), peer_has_unread(other.ends)); // whole, on one of them
    EXPECT_EQ(send_to(socket, other, "secret"), 6);
}

TEST_F(KcmAddress, close__sends_to_those_that_read_and_gives_the_others_up)
{
    KcmSocket &socket = new_socket();
    Client stalled = attach_stalled(socket), healthy = attach_healthy(socket);
    EXPECT_EQ(send_to(socket, stalled, framed(text(30'000))), 30'004);
    EXPECT_EQ(send_to(socket, stalled, framed("never"), KCM_ABI_MSG_MORE), 9);
    EXPECT_EQ(send_to(socket, stalled, framed(""), 0), 4);
    EXPECT_EQ(send_to(socket, healthy, framed("last"), kBatch), 8);
    run(a, [&] { socket.close(); });
    expect_soon(healthy, framed("last"));
    world.run_for(62 * sim::kSecond);
    int error = 0;
    run(b, [&] { error = -sim::program_error(stalled.ends.there); });
    EXPECT_EQ(error, KAPI_ECONNRESET);
    run(a, [&] {
        EXPECT_TRUE(host.unload());
        ASSERT_EQ(host.load(), 0);
    });
}

TEST_F(KcmAddress, attached__tells_the_id_of_a_socket)
{
    KcmSocket &socket = new_socket(), &other = new_socket();
    Client client = attach_healthy(socket), second = attach_healthy(socket);
    EXPECT_NE(client.id, second.id);
    run(a, [&] {
        EXPECT_EQ(socket.connections().at(0).id, client.id);
        ASSERT_EQ(other.open(), 0);
        EXPECT_EQ(other.id_of(client.ends.here), -KAPI_ENOENT);
        EXPECT_EQ(socket.id_of(-1), -KAPI_ENOENT);
        kcm_abi_attached argument{client.ends.here, 1, 0};
        int length = sizeof(argument);
        kapi_optval value{reinterpret_cast<unsigned char *>(&argument), sizeof(argument)};
        EXPECT_EQ(kcm_socket_getsockopt(socket.core(), KCM_ABI_ATTACHED, &value, &length), -KAPI_EINVAL);
        argument.reserved = 0;
        length = 8;
        EXPECT_EQ(kcm_socket_getsockopt(socket.core(), KCM_ABI_ATTACHED, &value, &length), -KAPI_EINVAL);
        EXPECT_EQ(socket.unattach(client.ends.here), 0);
        EXPECT_EQ(socket.id_of(client.ends.here), -KAPI_ENOENT);
    });
    peer_writes(second.ends, framed("from the second"));
    settle();
    std::uint64_t from = 0;
    run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_CONNECTION, 1), 0); });
    EXPECT_EQ(receive(socket, 100, kNow, nullptr, &from), framed("from the second"));
    EXPECT_EQ(from, second.id);
}

} // namespace
