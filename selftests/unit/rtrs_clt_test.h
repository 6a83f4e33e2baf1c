// SPDX-License-Identifier: GPL-2.0
// A machine with the client, and another one with a server at the level of verbs, over one or two links.
#pragma once

#include "pattern.h"
#include "rtrs_wire_server.h"

#include "drivers/infiniband/ulp/rtrs/client/glue/rtrs_clt_core.h"

#include <kapi/sim/sysfs.h>

#include <algorithm>

/** How a request of a test ended. */
struct Ended {
    bool done = false;
    int error = 0;
    unsigned times = 0;
    std::string data{};          // what it writes or has read
    std::vector<kapi_sglist> list{};

    static void call(void *priv, int error)
    {
        auto &self = *static_cast<Ended *>(priv);
        self.done = true;
        self.error = error;
        self.times++;
    }
};

class RtrsClientBase : public SimTest {
protected:
    /** max_wr, max_sge: of the client's devices. */
    explicit RtrsClientBase(std::uint64_t seed, kapi_u32 max_wr = 1 << 15, kapi_u32 max_sge = 32)
        : SimTest(seed), server(world, b)
    {
        a.initial_net().add(sim::address("10.0.1.1"), 3);
        b.initial_net().add(sim::address("10.0.1.2"), 3);
        auto change = [=](kapi_rdma_attrs &attrs) {
            attrs.max_wr = max_wr;
            attrs.max_sge = max_sge;
        };
        devices = {&sim::plug_rdma(a.initial_net(), "rxe_a0", 2, change), &sim::plug_rdma(a.initial_net(), "rxe_a1", 3, change)};
        sim::plug_rdma(b.initial_net(), "rxe_b0", 2);
        sim::plug_rdma(b.initial_net(), "rxe_b1", 3);
    }
    ~RtrsClientBase() override
    {
        if (session)
            close();
        if (loaded)
            unload();
        if (serving)
            server.stop();
    }

    void load()
    {
        module = &a.load_module("rtrs_client");
        run(a, [&] { ASSERT_EQ(rtrs_clt_core_init(module, &params), 0); });
        loaded = true;
    }
    void unload()
    {
        run(a, [&] {
            EXPECT_TRUE(a.start_unload(*module));
            rtrs_clt_core_exit();
            a.unload_done(*module);
        }, 200 * sim::kSecond);
    }
    void serve()
    {
        server.start();
        serving = true;
    }
    static rtrs_clt_route route(unsigned nth)
    {
        return {KAPI_CM_IP, sim::address(nth ? "10.0.1.1" : "10.0.0.1"), sim::address(nth ? "10.0.1.2" : "10.0.0.2")};
    }
    static void on_link(void *priv, int up)
    {
        auto &self = *static_cast<RtrsClientBase *>(priv);
        self.links.push_back(up);
        if (self.when_told)
            self.when_told(up);
    }

    /** From a task. */
    int try_open(unsigned paths = 1, const char *name = "session", int max_reconnects = -1)
    {
        rtrs_clt_route routes[] = {route(0), route(1)};
        return try_open(&a.initial_net(), routes, paths, name, max_reconnects);
    }
    int try_open(kapi_net *net, const rtrs_clt_route *routes, unsigned paths, const char *name = "session",
                 int max_reconnects = -1)
    {
        rtrs_clt_open_args args{net, name, this, on_link, routes, paths, WireServer::kPort, 2000, max_reconnects};
        int err = rtrs_clt_core_open(&args, &session);
        if (!err)
            query();
        return err;
    }
    /** As RNBD does when it has the session: from then on it is called. From a task. */
    void query()
    {
        rtrs_clt_limits limits;
        rtrs_clt_core_query(session, &limits);
    }
    void open(unsigned paths = 1, int max_reconnects = -1)
    {
        run(a, [&] { ASSERT_EQ(try_open(paths, "session", max_reconnects), 0); });
        ASSERT_NE(session, nullptr);
    }
    void close()
    {
        run(a, [&] { rtrs_clt_core_close(std::exchange(session, nullptr)); }, 200 * sim::kSecond);
    }
    void ready(unsigned paths = 1)
    {
        load();
        serve();
        open(paths);
    }

    /** From a task: begins a request with a permit; data lies in pieces of a page, the first one behind first_place. */
    int begin(rtrs_clt_chunk *permit, Ended &ended, bool read, const std::string &message)
    {
        ended.list.clear();
        auto *bytes = reinterpret_cast<unsigned char *>(ended.data.data());
        for (std::size_t at = 0; at < ended.data.size(); at += ended.list.back().length) {
            std::size_t place = at ? 0 : first_place;
            ended.list.push_back({bytes + at, place, std::min<std::size_t>(4096 - place, ended.data.size() - at)});
        }
        kapi_u32 room = 0;
        void *place = rtrs_clt_core_message(session, permit, &room);
        EXPECT_LE(message.size(), room);
        std::memcpy(place, message.data(), message.size());
        rtrs_clt_request_args args{read, &ended, Ended::call, message.size(), ended.data.size(), ended.list.data(),
                                   static_cast<unsigned>(ended.list.size())};
        return rtrs_clt_core_request(session, permit, &args);
    }
    /** From outside: a whole request; the error that it ended with. */
    int request(bool read, const std::string &message, std::string &data, std::uint64_t limit_ns = 30 * sim::kSecond,
                bool admin = false)
    {
        Ended ended;
        ended.data = data;
        rtrs_clt_chunk *permit = nullptr;
        int begun = 0;
        run(a, [&] {
            permit = rtrs_clt_core_get_permit(session, admin, 1);
            begun = permit ? begin(permit, ended, read, message) : -KAPI_ECONNABORTED; // it was lost meanwhile
        });
        if (!begun) {
            EXPECT_TRUE(world.run_until([&] { return ended.done; }, limit_ns)) << "the request does not end";
            EXPECT_EQ(ended.times, 1u);
        }
        if (permit && (begun || ended.done))
            run(a, [&] { rtrs_clt_core_put_permit(session, permit); });
        data = ended.data;
        return begun ? begun : ended.error;
    }
    int write(const std::string &message, std::string data, std::uint64_t limit_ns = 30 * sim::kSecond)
    {
        return request(false, message, data, limit_ns);
    }
    /** What is read, or how it failed. */
    std::string read(const std::string &message, std::size_t size)
    {
        std::string data(size, '-');
        int error = request(true, message, data);
        return error ? "error " + std::to_string(error) : data;
    }
    static std::string contents(std::size_t size, unsigned number)
    {
        return patterned(size, [=](std::size_t i) { return i * 7 + i / 4096 * 31 + number * 131; });
    }
    void cut(bool cut) { world.network().cut(a, b, cut); }

    // ---- files of the session
    static std::string path_name(unsigned nth) { return nth ? "ip:10.0.1.1@ip:10.0.1.2" : "ip:10.0.0.1@ip:10.0.0.2"; }
    std::string path(unsigned nth = 0) const { return root + "paths/" + path_name(nth) + "/"; }
    std::string get(const std::string &file)
    {
        std::string text;
        int err = 0;
        run(a, [&] { err = sim::sysfs_read(file, text); });
        return err < 0 ? "error " + std::to_string(err) : text;
    }
    int put(const std::string &file, const std::string &text)
    {
        int err = 0;
        run(a, [&] { err = sim::sysfs_write(file, text); }, 100 * sim::kSecond);
        return err;
    }

    const std::string root = "/sys/class/rtrs-client/session/";
    std::vector<kapi_rdma_dev *> devices;
    rtrs_clt_core_params params = RTRS_CLT_CORE_PRESETS;
    WireServer server;
    kapi_module *module = nullptr;
    rtrs_clt_session *session = nullptr;
    bool loaded = false, serving = false;
    std::size_t first_place = 0; // of a request's data, within its page
    std::vector<int> links; // what was reported
    std::function<void(int up)> when_told{}; // what the user does then
};

class RtrsClientTest : public RtrsClientBase, public ::testing::WithParamInterface<int> {
protected:
    RtrsClientTest() : RtrsClientBase(static_cast<std::uint64_t>(GetParam())) {}
};
