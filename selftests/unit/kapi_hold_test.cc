// SPDX-License-Identifier: GPL-2.0
// What kapi holds before a registration on Soft-RoCE (kapi/linux/verbs_hold.c), against a model of that device.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "verbs_hold_host.h"

namespace {

constexpr u32 kMost = 20; // requests of the user

struct Posted {
    ib_send_wr wr;
    std::vector<ib_sge> sges{};
    std::string bytes{}; // inline
    bool started = false, done = false;
};

bool is_local(const ib_send_wr &wr)
{
    return wr.opcode == IB_WR_LOCAL_INV || wr.opcode == IB_WR_REG_MR;
}

} // namespace

/** Soft-RoCE's queue pair: requests begin in order, an invalidation when all before it have completed. */
struct ib_qp {
    std::deque<Posted> queue;
    std::deque<std::pair<ib_send_wr, bool>> completions; // and whether they succeeded
    std::vector<Posted> started;                         // all, but the markers
    bool failed = false;
    bool forgets = false; // one at a fence, as that of 6.1 may
    u32 window = ~0u;     // after so many it forgets the next one
    u32 sent = 0;
    bool asleep = false; // it has
    std::size_t room = 2 * kMost + 2;

    int post(const ib_send_wr *list, const ib_send_wr **bad)
    {
        asleep = false;
        for (; list; list = list->next) {
            if (queue.size() >= room) {
                *bad = list;
                return -ENOMEM;
            }
            Posted entry{.wr = *list};
            if (list->send_flags & IB_SEND_INLINE)
                for (int i = 0; i < list->num_sge; i++)
                    entry.bytes.append(reinterpret_cast<const char *>(list->sg_list[i].addr), list->sg_list[i].length);
            else if (!is_local(*list))
                entry.sges.assign(list->sg_list, list->sg_list + list->num_sge);
            queue.push_back(entry);
        }
        return 0;
    }
    void start_one()
    {
        std::size_t next = 0;
        while (next < queue.size() && queue[next].started)
            next++;
        if (failed || asleep || next == queue.size())
            return;
        if (++sent > window) {
            sent = 0;
            asleep = true;
            return;
        }
        Posted &entry = queue[next];
        if (entry.wr.opcode == IB_WR_LOCAL_INV && next) {
            asleep = forgets;
            return;
        }
        if (entry.wr.opcode == IB_WR_REG_MR) { // else it may be executed once more
            for (std::size_t i = 0; i < next; i++)
                EXPECT_TRUE(is_local(queue[i].wr)) << "a registration behind a request that has not completed";
        }
        entry.started = true;
        entry.done = is_local(entry.wr);
        if (entry.wr.wr_id != KAPI_MARKER)
            started.push_back(entry);
    }
    /** An acknowledgement, or the flush of one: it is reported before it has left the queue. */
    template <typename Poll>
    void end_one(Poll poll)
    {
        if (queue.empty() || !(failed || queue.front().started))
            return;
        const Posted entry = queue.front();
        bool good = entry.done || !failed;
        if (entry.wr.send_flags & IB_SEND_SIGNALED || !good)
            completions.emplace_back(entry.wr, good);
        if (!good)
            poll();
        queue.pop_front();
    }
};

int ib_post_send(ib_qp *qp, const ib_send_wr *list, const ib_send_wr **failed)
{
    return qp->post(list, failed);
}

void refused()
{
    ADD_FAILURE() << "the device has refused what was held";
}

namespace {

class VerbsHold : public ::testing::TestWithParam<unsigned> {
protected:
    VerbsHold() : random_(GetParam())
    {
        qp_.ib = &device_;
        qp_.cm = &cm_;
        kapi_pd pd{};
        kapi_qp_caps caps{kMost, kMost, 2, 2, 64};
        EXPECT_EQ(kapi_hold_make(&qp_, &pd, &caps), 0);
    }
    ~VerbsHold() override
    {
        kapi_hold_stop(&qp_);
        kapi_hold_free(&qp_);
    }

    bool one_in(unsigned of) { return random_() % of == 0; }

    /** What is not known to have ended: one that is reported stands for all before it. */
    std::size_t outstanding() const { return posted_.size() - known_; }

    void post_some()
    {
        union kapi_wr_inside chain[4]{};
        ib_sge sges[4][2]{};
        std::string bytes[4];
        u32 n = 0;
        for (u32 wanted = 1 + random_() % 4; n < wanted && outstanding() < kMost; n++) {
            ib_send_wr &wr = chain[n].plain;
            static constexpr int kOps[] = {IB_WR_SEND,      IB_WR_RDMA_WRITE, IB_WR_RDMA_READ,
                                           IB_WR_LOCAL_INV, IB_WR_REG_MR,     IB_WR_REG_MR};
            wr.opcode = kOps[random_() % std::size(kOps)];
            wr.wr_id = posted_.size();
            // The last place is for one that is reported, so that it goes on.
            wr.send_flags = (one_in(3) || outstanding() + 1 == kMost ? IB_SEND_SIGNALED : 0) | (one_in(6) ? IB_SEND_FENCE : 0);
            if (wr.opcode == IB_WR_REG_MR && !one_in(4))
                wr.send_flags |= KAPI_SEND_EARLY;
            wr.sg_list = sges[n];
            wr.num_sge = is_local(wr) ? 0 : 1 + one_in(2);
            bytes[n] = "bytes of " + std::to_string(wr.wr_id);
            for (int i = 0; i < wr.num_sge; i++)
                sges[n][i] = {reinterpret_cast<u64>(bytes[n].data()) + 3 * i, 3, static_cast<u32>(wr.wr_id)};
            Posted entry{.wr = wr};
            if (wr.opcode <= IB_WR_RDMA_WRITE && one_in(2)) {
                entry.wr.send_flags = wr.send_flags |= IB_SEND_INLINE;
                entry.bytes = bytes[n].substr(0, 3 * wr.num_sge);
            } else {
                entry.sges.assign(sges[n], sges[n] + wr.num_sge);
            }
            posted_.push_back(entry);
            if (n)
                chain[n - 1].plain.next = &wr;
        }
        const ib_send_wr *failed;
        if (n) {
            ASSERT_EQ(kapi_hold_post(&qp_, &chain[0].plain, &failed), 0);
        }
    }
    void poll_one()
    {
        if (device_.completions.empty())
            return;
        auto [wr, good] = device_.completions.front();
        device_.completions.pop_front();
        good ? kapi_hold_count(&qp_) : kapi_hold_fail(&qp_);
        if (wr.wr_id == KAPI_MARKER)
            return kapi_hold_end(&qp_);
        (good ? succeeded_ : flushed_).push_back(wr.wr_id);
        if (wr.send_flags & IB_SEND_SIGNALED)
            known_ = std::max<std::size_t>(known_, wr.wr_id + 1);
    }
    void step()
    {
        switch (random_() % 4) {
        case 0: return post_some();
        case 1: return device_.start_one();
        case 2: return device_.end_one([&] { one_in(2) ? poll_one() : void(); });
        default: return poll_one();
        }
    }
    void wake()
    {
        delayed_work &work = qp_.hold->wake;
        if (std::exchange(work.queued, false))
            work.act(&work.work);
    }
    /** Everything ends without another request. */
    void settle()
    {
        for (unsigned i = 0; i < 40 * kMost; i++) {
            device_.start_one();
            device_.end_one([&] { poll_one(); });
            poll_one();
            if (one_in(20))
                wake();
        }
        EXPECT_TRUE(device_.queue.empty());
        EXPECT_EQ(qp_.hold->count, 0u);
        EXPECT_FALSE(qp_.hold->marked);
    }
    static bool may_pass(const Posted &entry)
    {
        return entry.wr.opcode == IB_WR_REG_MR &&
               (entry.wr.send_flags & (KAPI_SEND_EARLY | IB_SEND_SIGNALED | IB_SEND_FENCE)) == KAPI_SEND_EARLY;
    }
    /** In these cookies everything has its place, but what may pass others has passed no invalidation and no registration. */
    void expect_order(const std::vector<u64> &cookies)
    {
        for (std::size_t i = 0; i < cookies.size(); i++) {
            for (std::size_t j = i + 1; j < cookies.size(); j++) {
                if (cookies[j] > cookies[i])
                    continue;
                EXPECT_TRUE(may_pass(posted_[cookies[i]])) << cookies[i] << " is before " << cookies[j];
                EXPECT_FALSE(is_local(posted_[cookies[j]].wr)) << cookies[i] << " is before " << cookies[j];
                passed_++;
            }
        }
    }
    std::vector<u64> started() const
    {
        std::vector<u64> cookies;
        for (const Posted &entry : device_.started)
            cookies.push_back(entry.wr.wr_id);
        return cookies;
    }

    std::mt19937 random_;
    ib_qp device_;
    kapi_cm cm_{};
    kapi_qp qp_{};
    std::vector<Posted> posted_; // the cookie is the place
    std::size_t known_ = 0;
    unsigned passed_ = 0;
    std::vector<u64> succeeded_, flushed_;
};

TEST_P(VerbsHold, each_is_executed_once_in_its_order_and_unchanged)
{
    for (unsigned i = 0; i < 3000; i++)
        step();
    settle();
    ASSERT_EQ(device_.started.size(), posted_.size());
    expect_order(started());
    EXPECT_GT(passed_, 0u);
    EXPECT_TRUE(std::is_sorted(succeeded_.begin(), succeeded_.end()));
    for (const Posted &is : device_.started) {
        const Posted &was = posted_[is.wr.wr_id];
        EXPECT_EQ(is.wr.opcode, was.wr.opcode);
        EXPECT_EQ(is.wr.send_flags, was.wr.send_flags);
        EXPECT_EQ(is.bytes, was.bytes);
        ASSERT_EQ(is.sges.size(), was.sges.size());
        for (std::size_t i = 0; i < is.sges.size(); i++)
            EXPECT_TRUE(is.sges[i].addr == was.sges[i].addr && is.sges[i].lkey == was.sges[i].lkey);
    }
}

// RDS takes one that is flushed for the end of all before it.
TEST_P(VerbsHold, failure__each_ends_once_and_none_that_may_not_pass_is_flushed_before_one_that_was_posted_earlier)
{
    unsigned fails_at = random_() % 500;
    for (unsigned i = 0; i < fails_at; i++)
        step();
    device_.failed = true;
    for (unsigned i = 0; i < 50; i++)
        step();
    settle();
    expect_order(flushed_);
    std::map<u64, unsigned> ends;
    for (u64 cookie : flushed_)
        ends[cookie]++;
    for (u64 cookie : succeeded_)
        ends[cookie]++;
    for (const Posted &entry : device_.started)
        ends[entry.wr.wr_id] += !ends[entry.wr.wr_id] && !(entry.wr.send_flags & IB_SEND_SIGNALED);
    EXPECT_EQ(ends.size(), posted_.size());
    for (auto [cookie, times] : ends)
        EXPECT_EQ(times, 1u) << cookie;
}

// Its room is for so many as may be outstanding, and a marker, to the last place.
TEST_P(VerbsHold, full_queue__is_refused_nothing_when_it_fails)
{
    for (unsigned round = 0; round < 5; round++) {
        while (outstanding() < kMost)
            post_some();
        for (unsigned i = 0; i < 30; i++)
            device_.start_one(), device_.end_one([] {}), poll_one();
    }
    while (outstanding() < kMost)
        post_some();
    device_.failed = true;
    settle();
}

// Nobody posts any more: only kapi wakes it.
TEST_P(VerbsHold, device_that_forgets_a_marker__is_woken)
{
    device_.forgets = true;
    for (unsigned i = 0; i < 300; i++)
        step();
    settle();
}

// The same, with no registration, and whether or not the last is reported.
TEST_P(VerbsHold, device_that_forgets_any_request__is_woken)
{
    device_.window = 3;
    for (unsigned i = 0; i < 300; i++)
        step();
    settle();
    EXPECT_EQ(device_.started.size(), posted_.size());
}

// The first is lost. When both are sent again after a time-out, longer than kapi wakes for the second, that is forgotten.
TEST_P(VerbsHold, device_that_forgets_what_reports_nothing_when_it_sends_again__is_woken)
{
    for (bool reports : {true, false}) {
        union kapi_wr_inside wr{};
        wr.plain.opcode = IB_WR_SEND;
        wr.plain.wr_id = posted_.size();
        wr.plain.send_flags = reports ? IB_SEND_SIGNALED : 0;
        posted_.push_back({.wr = wr.plain});
        const ib_send_wr *failed;
        ASSERT_EQ(kapi_hold_post(&qp_, &wr.plain, &failed), 0);
    }
    for (unsigned i = 0; i < 30; i++)
        wake();
    device_.window = 1;
    device_.start_one();
    device_.start_one();
    ASSERT_TRUE(device_.asleep);
    device_.end_one([] {});
    poll_one();
    wake();
    device_.start_one();
    EXPECT_EQ(device_.started.size(), 2u);
}

// A queue pair that has nothing to do costs nothing.
TEST_P(VerbsHold, device_that_has_sent_everything__sleeps)
{
    for (unsigned i = 0; i < 300; i++)
        step();
    settle();
    unsigned wakes = 0;
    for (; qp_.hold->wake.queued && wakes < 100; wakes++)
        wake();
    EXPECT_LE(wakes, 17u);
    post_some();
    EXPECT_TRUE(qp_.hold->wake.queued);
}

// Nothing that was posted to it succeeds any more.
TEST_P(VerbsHold, device_that_has_failed__sleeps)
{
    for (unsigned i = 0; i < 300; i++)
        step();
    while (outstanding() < kMost)
        post_some();
    device_.failed = true;
    settle();
    ASSERT_FALSE(flushed_.empty());
    unsigned wakes = 0;
    for (; qp_.hold->wake.queued && wakes < 100; wakes++)
        wake();
    EXPECT_LE(wakes, 17u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, VerbsHold, ::testing::Range(1u, 41u));

} // namespace
