// SPDX-License-Identifier: GPL-2.0
#include "scenario.h"

#include <algorithm>
#include <iterator>

#include "inspect.h"
#include "kapi/sim/tcp.h"

using namespace sim;

namespace {

constexpr std::uint64_t kExcuseNs = 30 * kSecond;  // time for a sender to notice a machine's restart
constexpr std::uint64_t kConvergeNs = 5 * kSecond; // for notifications that a port is free
constexpr std::uint64_t kSettleNs = 120 * kSecond; // without the links' time; see settle_ns()

constexpr std::uint64_t kWatchNs = 20 * kMillisecond;
constexpr std::size_t kBaseBytes = 2 << 20;
constexpr std::size_t kSocketBytes = 9 << 18; // 2.25 MiB, twice as much when a buffer that was not set has grown
constexpr std::size_t kPeerBytes = 1 << 18;
constexpr std::uint64_t kSlowest = 200'000;        // bytes a second over a link
constexpr std::uint64_t kLossFactor = 4;
constexpr std::uint64_t kMapBytes = 8192;          // of a congestion map
constexpr std::uint64_t kDelays[] = {kMicrosecond, 50 * kMicrosecond, kMillisecond, 20 * kMillisecond,
                                     150 * kMillisecond};

} // namespace

void Course::fail(const std::string &why)
{
    world.print_tasks();
    for (auto &machine : machines)
        print_connections(machine->host);
    world.fail("%s", why.c_str());
}

void Course::in_task(Machine &machine, const char *name, std::function<void()> body)
{
    TaskRef task = world.spawn(machine.node, name, std::move(body));
    if (!world.run_until([&] { return task->is_done(); }, 100 * kSecond))
        fail(std::string(name) + " on " + machine.node.name() + " does not end");
}

Scenario::Scenario(std::uint64_t seed) : course_(seed), faults_(course_)
{
    World &world = course_.world;
    const Profile &profile = course_.profile;
    for (unsigned i = 0; i < profile.nodes; i++) {
        Node &node = world.add_node(std::string("node") + std::to_string(i));
        course_.machines.push_back(std::make_unique<Machine>(course_, node, i));
    }
    for (unsigned i = 0; i < profile.namespaces; i++)
        for (auto &machine : course_.machines)
            machine->add_site();
    lay_links();
    if (profile.adversary)
        course_.adversary = std::make_unique<Adversary>(course_, world.add_node("adversary"));
    world.network().reset_after_about(profile.reset_after);
}

void Scenario::lay_links()
{
    const Profile &profile = course_.profile;
    Random &random = course_.world.random();
    for (auto &from : course_.machines) {
        for (auto &to : course_.machines) {
            if (from == to)
                continue;
            Link &link = course_.world.network().link(from->node, to->node);
            link.lose_one_in = profile.lose_one_in;
            if (!profile.uneven)
                continue;
            link.delay_ns = kDelays[random.below(std::size(kDelays))];
            link.jitter_ns = random.below(link.delay_ns);
            link.spread_ns = random.one_in(2) ? random.below(100 * kMillisecond) : 0;
            trip_ns_ = std::max(trip_ns_, 2 * (link.delay_ns + link.jitter_ns + link.spread_ns));
            if (random.one_in(2)) // fast enough for its share of the messages in some seconds
                link.bytes_per_s = std::max(profile.bytes_of_a_node() >> random.below(3), kSlowest);
        }
    }
}

/**
 * After the last fault everything arrives within this time. The worst case: all remaining messages of a machine go
 * to one other, on one path, over the slowest link, and a window of the smallest buffers needs many
 * round trips; and because packets are lost before a slow link, all takes several times as long.
 */
std::uint64_t Scenario::settle_ns() const
{
    const Profile &profile = course_.profile;
    return kSettleNs + transfer_ns(profile.bytes_of_a_node() + 2 * profile.bytes_of_a_round());
}

/** The time of this many bytes over the worst link; 0 when all links are fast. */
std::uint64_t Scenario::transfer_ns(std::uint64_t bytes) const
{
    if (!course_.profile.uneven)
        return 0;
    std::uint64_t window = course_.profile.buffers ? Machine::kSmallestBuffer : Tcb::kFirstWindow;
    std::uint64_t trips_ns = (bytes / window + 1) * (trip_ns_ + Network::kQueueNs);
    return kLossFactor * (trips_ns + bytes * kSecond / kSlowest);
}

/** Under any load, a machine's memory is bounded by its sockets' limits and the number of its peers. */
void Scenario::watch_memory()
{
    const Profile &profile = course_.profile;
    std::size_t sockets = std::size_t{profile.sockets} * profile.namespaces;
    // The receive queue's hard limit.
    std::size_t socket_bytes = profile.rcvbuf ? std::max(kSocketBytes, 4 * std::size_t{profile.rcvbuf}) : 2 * kSocketBytes;
    std::size_t bound = kBaseBytes + 2 * sockets * socket_bytes + course_.sites.size() * kPeerBytes * profile.namespaces;
    for (const auto &machine : course_.machines) {
        std::size_t taken = machine->node.memory().bytes();
        if (taken > bound)
            course_.fail(machine->node.name() + " has " + std::to_string(taken) + " bytes, more than " +
                         std::to_string(bound));
    }
    if (!course_.over)
        course_.world.after(kWatchNs, [this] { watch_memory(); });
}

void Scenario::set_up()
{
    for (auto &machine : course_.machines)
        course_.in_task(*machine, "boot", [m = machine.get()] { m->boot(); });
}

/** All senders do one more round, without faults, and their messages arrive (or are excused). */
void Scenario::calm_round(bool excused)
{
    World &world = course_.world;
    Ledger &ledger = course_.ledger;
    course_.calm_rounds++;
    auto all_sent = [this] {
        for (const Site *site : course_.sites)
            for (const auto &program : site->programs)
                if (program->rounds_done() < course_.calm_rounds)
                    return false;
        return true;
    };
    if (!world.run_until(all_sent, settle_ns()))
        course_.fail("stuck: senders do not end; missing:" + ledger.missing());
    bool delivered = world.run_until([&] { return ledger.all_delivered(); }, excused ? kExcuseNs : settle_ns());
    if (!delivered && !excused)
        course_.fail("stuck: not delivered:" + ledger.missing());
}

/** Everything was received, so no socket is full; the congestion maps of every machine that is connected must show that. */
void Scenario::expect_no_congestion()
{
    auto agreed = [this] {
        for (const auto &machine : course_.machines)
            for (const Site *site : course_.sites)
                if (full_ports(machine->host, site->address(), Streams::needed))
                    return false;
        return true;
    };
    if (!course_.world.run_until(agreed, kConvergeNs + transfer_ns(kMapBytes)))
        course_.fail("a machine takes another's port for congested, and nothing corrects that");
}

void Scenario::shut_down()
{
    for (auto &machine : course_.machines) {
        course_.in_task(*machine, "shutdown", [this, m = machine.get()] {
            m->stop_programs();
            if (!accounts_balance(m->host))
                course_.world.fail("all sockets are closed, but bytes are still charged to them");
            if (!m->host.unload_soon())
                course_.world.fail("the modules do not unload although no socket is open");
        });
    }
}

Outcome Scenario::run()
{
    Outcome &outcome = course_.outcome;
    World &world = course_.world;
    set_up();
    faults_.plan();
    if (course_.adversary)
        course_.adversary->start();
    watch_memory();
    world.run_for(course_.profile.fault_time_ns);
    faults_.end();
    calm_round(outcome.crashes || outcome.reloads || outcome.net_deletions);
    calm_round(false);
    expect_no_congestion();
    shut_down();
    if (course_.adversary) {
        course_.adversary->end();
        outcome.hostile_acts = course_.adversary->acts();
    }
    course_.over = true;
    world.end_softirqs();
    outcome.hash = world.trace().hash();
    outcome.events = world.trace().count();
    outcome.messages = course_.ledger.total_received();
    outcome.resets = world.network().resets_done();
    outcome.connections = world.network().connections_made();
    for (auto &machine : course_.machines)
        outcome.allocation_faults += machine->node.faults().failed;
    outcome.simulated_seconds = static_cast<double>(world.now_ns()) / 1e9;
    return outcome;
}
