// SPDX-License-Identifier: GPL-2.0
#include "kcm_scenario.h"

using namespace sim;

namespace {

constexpr std::uint64_t kFaultTimeNs = 600 * kSecond; // time limit for all senders
constexpr std::uint64_t kFallsWithinNs = 3 * kSecond;
constexpr std::uint64_t kNoticedWithinNs = 5 * kSecond;

} // namespace

KcmScenario::KcmScenario(std::uint64_t seed) : course_(seed)
{
    bool plain = course_.profile.plain;
    a_ = std::make_unique<KcmSide>(course_, course_.world.add_node("a"), KcmSide::Kind::calls, "10.0.0.1");
    b_ = std::make_unique<KcmSide>(course_, course_.world.add_node("b"),
                                   plain ? KcmSide::Kind::plain : KcmSide::Kind::listens, "10.0.0.2");
    course_.world.network().reset_after_about(course_.profile.reset_after);
}

void KcmScenario::plan_falls()
{
    Random &random = course_.world.random();
    falls_left_ = course_.profile.falls;
    for (unsigned i = 0; i < falls_left_; i++) {
        KcmSide &side = random.one_in(2) && !course_.profile.plain ? *b_ : *a_;
        course_.world.after(random.below(kFallsWithinNs), [this, &side] {
            falls_left_--;
            side.fall();
            course_.world.after(kNoticedWithinNs, [this] { end_half_open(); });
        });
    }
}

/** An end without data to send does not notice that the other end is gone, except by its program's keepalives. */
void KcmScenario::end_half_open()
{
    Network &network = course_.world.network();
    network.reset(a_->node, b_->node, Sees::both);
    network.reset(b_->node, a_->node, Sees::both);
}

/** Waits until all senders have sent all their messages. */
void KcmScenario::trouble()
{
    course_.in_task(b_->node, "boot", [this] { b_->boot(); });
    course_.in_task(a_->node, "boot", [this] { a_->boot(); });
    plan_falls();
    if (!course_.world.run_until([this] { return !falls_left_ && a_->is_done() && b_->is_done(); }, kFaultTimeNs))
        course_.fail("stuck: senders do not end");
}

/** No more faults: later messages must arrive, and, if no connection ever broke, all earlier ones. */
void KcmScenario::calm_down(bool excused)
{
    Network &network = course_.world.network();
    a_->node.faults().one_in = b_->node.faults().one_in = 0;
    network.reset_after_about(0);
    for (const TcbRef &tcb : network.tcbs())
        tcb->reset_budget = 0;
    if (course_.profile.may_break()) {
        end_half_open();
        course_.world.run_for(kNoticedWithinNs);
    }
    // A message for a connection that is being unattached may be sent and still be refused.
    course_.still = true;
    if (!course_.world.run_until([&] { return !a_->takes_away() && !b_->takes_away(); }, KcmCourse::kSettleNs))
        course_.fail("stuck: unattaching does not end");
    course_.ledger.begin_calm();
    course_.calm = true;
    auto arrived = [&] { return a_->is_done() && b_->is_done() && course_.ledger.all_received(excused); };
    if (!course_.world.run_until(arrived, KcmCourse::kSettleNs))
        course_.fail("stuck: not received:" + course_.ledger.missing(excused));
}

void KcmScenario::end()
{
    course_.over = true;
    for (KcmSide *side : {a_.get(), b_.get()})
        if (!course_.world.run_until([&] { return !side->has_connections(); }, KcmCourse::kSettleNs))
            course_.fail("stuck: connections do not end on " + side->node.name());
    for (KcmSide *side : {a_.get(), b_.get()})
        course_.in_task(side->node, "shutdown", [this, side] {
            side->stop(true);
            if (!side->unload(2 * KcmCourse::kSettleNs))
                course_.fail("the module does not unload although no socket is open");
        });
    course_.world.run_for(200 * kSecond); // TCP's last packets
}

Outcome KcmScenario::run()
{
    trouble();
    calm_down(course_.profile.may_break() || course_.profile.may_refuse());
    end();
    Outcome &outcome = course_.outcome;
    World &world = course_.world;
    world.end_softirqs();
    outcome.hash = world.trace().hash();
    outcome.events = world.trace().count();
    outcome.messages = course_.ledger.total();
    outcome.resets = world.network().resets_done();
    outcome.connections = world.network().connections_made();
    outcome.allocation_faults = a_->node.faults().failed + b_->node.faults().failed;
    outcome.simulated_seconds = static_cast<double>(world.now_ns()) / 1e9;
    return outcome;
}
