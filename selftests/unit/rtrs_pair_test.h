// SPDX-License-Identifier: GPL-2.0
// The RTRS client on a, and the RTRS server with a user of it on b.
#pragma once

#include "rtrs_clt_test.h"
#include "rtrs_srv_test.h"

class RtrsPairTest : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond;

    /** In the destructor of the fixture that owns the server's user. */
    void end()
    {
        if (session)
            close();
        if (srv)
            stop_server();
    }
    void start_server(const rtrs_srv_core_params &params, const rtrs_srv_core_ops &ops, void *user)
    {
        srv_module = &b.load_module("rtrs_server");
        run(b, [&] {
            ASSERT_EQ(rtrs_srv_core_init(srv_module, &params), 0);
            ASSERT_EQ(rtrs_srv_core_open(&b.initial_net(), &ops, user, WireServer::kPort, &srv), 0);
        });
    }
    void stop_server()
    {
        run(b, [&] {
            rtrs_srv_core_close(std::exchange(srv, nullptr));
            EXPECT_TRUE(b.start_unload(*srv_module));
            rtrs_srv_core_exit();
            b.unload_done(*srv_module);
        }, 200 * kSecond);
    }
    /** From a task: one request, and how it ended. */
    int call(bool read, const std::string &message, std::string &data)
    {
        Ended ended;
        ended.data.swap(data);
        rtrs_clt_chunk *permit = rtrs_clt_core_get_permit(session, 0, 1);
        int error = permit ? begin(permit, ended, read, message) : -KAPI_ECONNABORTED; // it was lost meanwhile
        while (!error && !ended.done)
            world.sleep(100 * sim::kMicrosecond);
        EXPECT_LE(ended.times, 1u);
        if (permit)
            rtrs_clt_core_put_permit(session, permit);
        data.swap(ended.data);
        return error ? error : ended.error;
    }

    rtrs_srv_core *srv = nullptr;
    kapi_module *srv_module = nullptr;
};
