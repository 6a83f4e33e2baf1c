// SPDX-License-Identifier: GPL-2.0
#include "rtrs_scenario.h"

#include "drivers/infiniband/ulp/rtrs/common/wire.h"

#include <cstddef>
#include <vector>

using namespace sim;

namespace {

constexpr std::uint64_t kTroubleNs = 600 * kSecond; // time limit for all requests
constexpr std::uint64_t kLongCutNs = 12 * kSecond, kShortCutNs = 600 * kMillisecond;
constexpr std::uint64_t kPauseNs = 8 * kSecond;
constexpr std::uint64_t kNoticedNs = kPauseNs + 6 * kSecond; // by then, also at a machine that stands still, dead paths are known
constexpr std::uint64_t kPollNs = 20 * kMillisecond;

// What a client asks for that knows nothing of them.
void forget_whole_answers(std::vector<unsigned char> &request)
{
    constexpr std::size_t flags = offsetof(rtrs::wire::ConnectRequest, flags);
    request.at(flags) = static_cast<unsigned char>(request.at(flags) & ~rtrs::wire::connect_whole_answers);
}

} // namespace

RtrsScenario::RtrsScenario(std::uint64_t seed) : course_(seed)
{
    client_ = std::make_unique<RtrsClientSide>(course_, course_.world.add_node("a"));
    server_ = std::make_unique<RtrsServerSide>(course_, course_.world.add_node("b"));
    if (!course_.profile.whole_answers)
        edit_requests(forget_whole_answers);
}

// ---- faults

void RtrsScenario::plan_faults()
{
    faults_left_ = course_.profile.faults;
    for (unsigned i = 0; i < faults_left_; i++)
        course_.world.after(course_.world.random().below(course_.profile.fault_time_ns), [this] {
            one_fault();
            faults_left_--;
        });
}

void RtrsScenario::one_fault()
{
    const RtrsProfile &profile = course_.profile;
    const Kind kinds[] = {
        {profile.cuts, &RtrsScenario::cut},
        {profile.devices, &RtrsScenario::take_device},
        {profile.disconnects, &RtrsScenario::change_path},
        {profile.reloads, &RtrsScenario::reload},
        {profile.server_crashes, &RtrsScenario::crash_server},
        {profile.client_crashes, &RtrsScenario::crash_client},
        {profile.pauses, &RtrsScenario::pause},
        {profile.holds, &RtrsScenario::hold},
    };
    std::vector<Kind> possible;
    for (const Kind &kind : kinds)
        if (kind.happens)
            possible.push_back(kind);
    if (!possible.empty())
        (this->*possible[course_.world.random().below(possible.size())].strike)();
}

/** Which one something happens to. */
unsigned RtrsScenario::path()
{
    unsigned last = RtrsCourse::kPaths - 1;
    return course_.profile.one_path_lives ? last : static_cast<unsigned>(course_.world.random().below(RtrsCourse::kPaths));
}

void RtrsScenario::cut()
{
    Random &random = course_.world.random();
    Network &network = course_.world.network();
    course_.outcome.resets++;
    network.cut(client_->node, server_->node);
    course_.world.after(random.below(random.one_in(3) ? kLongCutNs : kShortCutNs),
                        [this, &network] { network.cut(client_->node, server_->node, false); });
}

void RtrsScenario::take_device()
{
    bool at_client = course_.world.random().one_in(2);
    if (at_client ? client_->is_steady() : server_->is_steady())
        (at_client ? client_->devices : server_->devices).take(path());
}

void RtrsScenario::change_path()
{
    unsigned which = path();
    if (course_.world.random().one_in(3)) {
        if (server_->is_steady())
            course_.world.spawn(server_->node, "administrator", [this, which] { server_->disconnect(which); });
    } else if (client_->is_steady()) {
        course_.world.spawn(client_->node, "administrator", [this, which] { client_->change(which); });
    }
}

void RtrsScenario::reload()
{
    bool at_client = course_.world.random().one_in(3);
    if (at_client && client_->is_steady())
        client_->reload();
    else if (!at_client && server_->is_steady())
        server_->reload();
}

void RtrsScenario::crash_server()
{
    if (server_->is_steady())
        server_->crash();
}

void RtrsScenario::crash_client()
{
    if (client_->is_steady())
        client_->crash();
}

void RtrsScenario::pause()
{
    Random &random = course_.world.random();
    Node &node = random.one_in(2) ? client_->node : server_->node;
    if (!node.is_paused())
        node.pause(random.below(kPauseNs), random.one_in(2));
}

void RtrsScenario::hold()
{
    if (client_->is_steady())
        client_->devices.hold(path());
}

// ---- the run

/** Until all programs have made their requests. */
void RtrsScenario::trouble()
{
    course_.in_task(server_->node, "boot", [this] { server_->boot(); });
    course_.in_task(client_->node, "boot", [this] { client_->boot(); });
    plan_faults();
    if (!course_.world.run_until([this] { return !faults_left_ && server_->is_steady() && client_->is_done(); }, kTroubleNs))
        course_.fail("stuck: requests do not end");
}

/** No more faults: all paths come up, and all requests succeed. */
void RtrsScenario::calm_down()
{
    course_.calm = true;
    client_->node.faults().one_in = server_->node.faults().one_in = 0;
    course_.world.network().heal_all();
    course_.world.run_for(kNoticedNs);
    bool is_up = false;
    course_.in_task(client_->node, "paths", [&] {
        std::uint64_t limit = course_.world.now_ns() + RtrsCourse::kSettleNs;
        while (!(is_up = client_->is_steady() && client_->has_all_paths()) && course_.world.now_ns() < limit)
            course_.world.sleep(kPollNs);
    });
    if (!is_up)
        course_.fail("stuck: paths do not come up");
    client_->expect_success();
    if (!course_.world.run_until([this] { return client_->is_done(); }, RtrsCourse::kSettleNs))
        course_.fail("stuck: requests do not end, and nothing is wrong");
}

/** When the client is gone, nothing of it is left at the server. */
void RtrsScenario::end()
{
    course_.in_task(client_->node, "shutdown", [this] { client_->stop(); });
    if (!course_.world.run_until([this] { return server_->is_idle(); }, RtrsCourse::kSettleNs))
        course_.fail("the server keeps what belonged to a client");
    course_.in_task(server_->node, "shutdown", [this] { server_->stop(); });
    course_.world.run_for(2 * RtrsCourse::kSettleNs); // the last packets
}

Outcome RtrsScenario::run()
{
    trouble();
    calm_down();
    end();
    Outcome &outcome = course_.outcome;
    World &world = course_.world;
    world.end_softirqs();
    outcome.hash = world.trace().hash();
    outcome.events = world.trace().count();
    outcome.allocation_faults = client_->node.faults().failed + server_->node.faults().failed;
    outcome.simulated_seconds = static_cast<double>(world.now_ns()) / 1e9;
    return outcome;
}
