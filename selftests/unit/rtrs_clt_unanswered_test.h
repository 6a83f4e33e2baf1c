// SPDX-License-Identifier: GPL-2.0
// Requests of the RTRS client that are not answered.
#pragma once

#include "rtrs_clt_test.h"

class RtrsClientUnanswered : public RtrsClientTest {
protected:
    static constexpr std::uint64_t kSecond = sim::kSecond;

    /** The server takes requests with this message and does not answer them. */
    void swallow(const std::string &message)
    {
        server.on_request = [this, message](WireServer::Request &request) {
            if (request.message != message)
                return false;
            swallowed.push_back(request);
            return true;
        };
    }
    rtrs_clt_chunk *permit(bool wait = true)
    {
        rtrs_clt_chunk *taken = nullptr;
        run(a, [&] { taken = rtrs_clt_core_get_permit(session, 0, wait); });
        return taken;
    }
    void give(rtrs_clt_chunk *taken)
    {
        run(a, [&] { rtrs_clt_core_put_permit(session, taken); });
    }
    void begin_one(Ended &ended, const std::string &message, bool read = false)
    {
        ended.data = contents(4096, 1);
        ended.data.resize(4096);
        permits.push_back(permit());
        run(a, [&] { EXPECT_EQ(begin(permits.back(), ended, read, message), 0); });
    }
    /** The server has it, and its answer does not come. Returns its path. */
    unsigned begin_late(Ended &ended)
    {
        swallowed.clear();
        swallow("late");
        begin_one(ended, "late");
        EXPECT_TRUE(world.run_until([&] { return swallowed.size() == 1; }, kSecond));
        return swallowed.empty() ? 0 : path_of(swallowed[0]);
    }
    /** Of two paths, over the first one. */
    void begin_over_first(Ended &ended)
    {
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        begin_late(ended);
        EXPECT_EQ(put(path(1) + "reconnect", "1"), 0);
    }
    /** It ends for its time, and the permits are given back. */
    void end_late(Ended &ended)
    {
        EXPECT_EQ(put(root + "io_timeout_ms", "1000"), 0);
        EXPECT_TRUE(until(ended, 5 * kSecond));
        EXPECT_EQ(ended.error, -KAPI_ETIMEDOUT);
        give_all();
    }
    bool until(Ended &ended, std::uint64_t limit_ns)
    {
        return world.run_until([&] { return ended.done; }, limit_ns);
    }
    void give_all()
    {
        for (auto *taken : std::exchange(permits, {}))
            give(taken);
    }
    /** Both paths are lost, the second one with a request in each chunk. */
    void keep_all()
    {
        EXPECT_EQ(put(path(0) + "disconnect", "1"), 0);
        swallow("lost");
        std::vector<Ended> ended(depth());
        for (auto &one : ended)
            begin_one(one, "lost");
        EXPECT_EQ(put(path(1) + "disconnect", "1"), 0);
        for (auto &one : ended)
            ASSERT_TRUE(until(one, kSecond));
        give_all();
    }
    /** How many permits there are at once. */
    unsigned free_permits()
    {
        std::vector<rtrs_clt_chunk *> taken;
        while (auto *one = permit(false))
            taken.push_back(one);
        for (auto *one : taken)
            give(one);
        return static_cast<unsigned>(taken.size());
    }
    unsigned depth() const { return server.geometry.queue_depth(); }
    /** The path that a request came over: 0 or 1. */
    unsigned path_of(const WireServer::Request &request)
    {
        kapi_cm_info info;
        kapi_cm_describe(request.on->cm, &info);
        return info.local.ip[14];
    }

    std::vector<WireServer::Request> swallowed;
    std::vector<rtrs_clt_chunk *> permits;
};
