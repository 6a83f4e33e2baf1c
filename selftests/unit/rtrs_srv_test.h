// SPDX-License-Identifier: GPL-2.0
// A machine with the RTRS server and a user of it, and one with a client.
#pragma once

#include "rtrs_srv_client.h"

/** Node b serves, node a asks. Each has two devices, on two networks. */
class SrvWorld : public SimTest {
protected:
    static constexpr kapi_u16 kPort = 1234;
    static constexpr unsigned kDepth = 8;
    static constexpr std::size_t kChunk = 8192;

    explicit SrvWorld(std::uint64_t seed) : SimTest(seed)
    {
        a.initial_net().add(sim::address("10.0.1.1"), 3);
        b.initial_net().add(sim::address("10.0.1.2"), 3);
        sim::plug_rdma(a.initial_net(), "rxe_a");
        sim::plug_rdma(a.initial_net(), "rxe_a2", 3);
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
        dev_b2 = &sim::plug_rdma(b.initial_net(), "rxe_b2", 3);
        user.world = &world;
    }
    ~SrvWorld() override
    {
        for (SrvPath *path : {&first, &second})
            if (path->pd || !path->links.empty())
                run(a, [&] { path->drop(); }, 200 * sim::kSecond);
        unload();
    }

    /** From a task. */
    int init(const rtrs_srv_core_params &params)
    {
        module = &b.load_module("rtrs_server");
        int err = rtrs_srv_core_init(module, &params);
        if (err)
            b.unload_done(*std::exchange(module, nullptr));
        return err;
    }
    void unload()
    {
        close();
        if (loaded)
            run(b, [&] {
                EXPECT_TRUE(b.start_unload(*module));
                rtrs_srv_core_exit();
                b.unload_done(*std::exchange(module, nullptr));
            }, 200 * sim::kSecond);
        loaded = false;
    }

    void load(bool always_invalidate, long depth = kDepth, long chunk = kChunk)
    {
        run(b, [&] {
            rtrs_srv_core_params params{chunk, depth, always_invalidate};
            ASSERT_EQ(init(params), 0);
            loaded = true;
            ASSERT_EQ(rtrs_srv_core_open(&b.initial_net(), &SrvUser::ops, &user, kPort, &server), 0);
        });
    }
    /** The same, and what was seen of its user is forgotten. */
    void unload_with_user()
    {
        unload();
        user = SrvUser{};
        user.world = &world;
    }
    void close()
    {
        if (server)
            run(b, [&] { rtrs_srv_core_close(std::exchange(server, nullptr)); }, 200 * sim::kSecond);
    }

    bool wait(const std::function<bool()> &done, std::uint64_t limit_ns = 10 * sim::kSecond)
    {
        return world.run_until(done, limit_ns);
    }
    /** One connection with this request, or these bytes; until it is established or has ended. */
    SrvPath::Link &ask(SrvPath &path, const std::string &data)
    {
        auto &link = begin(path, data);
        EXPECT_TRUE(wait([&] { return link.established || link.end; }, 200 * sim::kSecond));
        if (link.established)
            accepted(path, link);
        return link;
    }
    static void accepted(SrvPath &path, SrvPath::Link &link)
    {
        auto offer = rtrs::parse_acceptance(SrvPath::bytes_of(link.data));
        EXPECT_TRUE(offer);
        if (offer)
            path.offer = *offer;
    }
    /** The same; it is not waited for. */
    SrvPath::Link &begin(SrvPath &path, const std::string &data)
    {
        auto &link = *path.links.emplace_back(std::make_unique<SrvPath::Link>());
        link.path = &path;
        link.number = static_cast<unsigned>(path.links.size() - 1);
        run(a, [&] { path.resolve(link, kPort); });
        EXPECT_TRUE(wait([&] { return link.resolved || link.end; }));
        if (!link.end)
            run(a, [&] { path.ask(link, data.data(), data.size()); });
        return link;
    }
    static rtrs::Uuid uuid(unsigned char value) { return {{value, 1, 2, 3}}; }
    static std::string request(unsigned connection, unsigned connections, unsigned char path = 1, unsigned char session = 100,
                               bool is_first = true, unsigned reconnects = 0, bool whole_answers = false)
    {
        rtrs::ConnectRequest asked{static_cast<kapi_u16>(connection), static_cast<kapi_u16>(connections),
                                   static_cast<kapi_u16>(reconnects), uuid(path), uuid(session), is_first, whole_answers};
        auto bytes = rtrs::write_connect_request(asked);
        return {reinterpret_cast<const char *>(&bytes), sizeof(bytes)};
    }
    /** The errno of a rejection; 0: established. */
    static int rejected(const SrvPath::Link &link)
    {
        return link.established ? 0 : rtrs::parse_rejection(SrvPath::bytes_of(link.data)).code();
    }
    void connect(SrvPath &path, unsigned connections = 3, unsigned char id = 1, unsigned char session = 100)
    {
        for (unsigned i = 0; i < connections; i++)
            ASSERT_TRUE(ask(path, request(i, connections, id, session)).established) << rejected(*path.links.back());
    }
    static std::string info_request(const std::string &name)
    {
        rtrs::SessionName text{};
        name.copy(text.text, rtrs::max_name);
        auto bytes = rtrs::write_info_request(text);
        return {reinterpret_cast<const char *>(&bytes), sizeof(bytes)};
    }
    void ask_info(SrvPath &path, const std::string &name = "session")
    {
        std::string bytes = info_request(name);
        run(a, [&] { path.send(*path.links[0], bytes.data(), bytes.size()); });
    }
    void exchange(SrvPath &path, const std::string &name = "session")
    {
        ask_info(path, name);
        ASSERT_TRUE(wait([&] { return !path.info.empty(); }));
        path.chunks.resize(path.offer->geometry.queue_depth());
        ASSERT_TRUE(rtrs::parse_info_response(SrvPath::bytes_of(path.info), path.offer->geometry, path.chunks));
    }
    void establish(SrvPath &path, unsigned connections = 3, unsigned char id = 1)
    {
        connect(path, connections, id);
        exchange(path);
    }
    void establish_both()
    {
        establish(first, 3, 1);
        establish(second, 2, 2);
        EXPECT_EQ(user.links.size(), 1u) << "one session";
    }
    void write(SrvPath &path, unsigned link, unsigned chunk, const std::string &data, const std::string &message)
    {
        run(a, [&] { path.write(*path.links[link], chunk, data, message); });
    }
    void read(SrvPath &path, unsigned link, unsigned chunk, std::size_t size, const std::string &message)
    {
        run(a, [&] { path.read(*path.links[link], chunk, size, message); });
    }
    /** The first call of the user is a write, which it ends when answer_call() does. */
    void keep_write(SrvPath &path, const std::string &data = "data")
    {
        user.keeps = true;
        write(path, 1, 0, data, "wx");
        ASSERT_TRUE(wait([&] { return user.calls.size() == 1; }));
    }
    void answer_call(std::size_t index = 0, int status = 0)
    {
        run(b, [&] { user.answer(user.calls[index], status); });
    }
    /** The errno that a request was answered with. */
    int answer(SrvPath &path, unsigned chunk)
    {
        EXPECT_TRUE(wait([&] { return path.answers.count(chunk) != 0; })) << "no answer for chunk " << chunk;
        return path.answers.count(chunk) ? path.answers[chunk].error : -1;
    }
    void drop(SrvPath &path)
    {
        run(a, [&] { path.drop(); }, 200 * sim::kSecond);
    }
    /** The server has ended the path. */
    bool ends(SrvPath &path)
    {
        return wait([&] {
            return std::any_of(path.links.begin(), path.links.end(), [](const auto &link) { return link->end.has_value(); });
        }, 200 * sim::kSecond);
    }
    static std::string contents(std::size_t size, unsigned number)
    {
        return patterned(size, [=](std::size_t i) { return i * 7 + i / 512 * 31 + number * 131; });
    }

    kapi_rdma_dev *dev_b = nullptr, *dev_b2 = nullptr;
    SrvUser user;
    SrvPath first{a, "10.0.0.1", "10.0.0.2"}, second{a, "10.0.1.1", "10.0.1.2"};
    rtrs_srv_core *server = nullptr;
    kapi_module *module = nullptr;
    bool loaded = false;
};

class SrvTest : public SrvWorld, public ::testing::WithParamInterface<int> {
protected:
    SrvTest() : SrvWorld(static_cast<std::uint64_t>(GetParam())) {}
};
