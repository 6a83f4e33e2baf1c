// SPDX-License-Identifier: GPL-2.0
#include "turn.h"

#include <kapi/host.h>
#include <kapi/stream.h>

#include <algorithm>

#include "node.h"
#include "tcp.h"
#include "world.h"

namespace sim {

namespace {

constexpr std::uint64_t kPointNs = kMicrosecond;

bool is_softirq() { return World::current_task()->kind == TaskKind::softirq; }

} // namespace

TurnScope::TurnScope()
    : before_(World::current_task()->turn), began_ns_(world().now_ns()), points_(World::current_task()->points),
      most_ns_(KAPI_TURN_NS)
{
    World::current_task()->turn = this;
    if (!is_softirq())
        return;
    TurnDebt &debt = Node::current()->turn_debt;
    debt.ns -= std::min(debt.ns, began_ns_ - debt.since_ns);
    debt.since_ns = began_ns_;
    most_ns_ -= std::min(most_ns_, debt.ns);
}

TurnScope::~TurnScope()
{
    Task &task = *World::current_task();
    task.turn = before_;
    if (!is_softirq() || before_)
        return;
    TurnDebt &debt = task.node->turn_debt;
    debt.ns += taken_ns();
    debt.since_ns = world().now_ns();
}

void spend(std::uint64_t time_ns)
{
    World::current_task()->points += time_ns / kPointNs;
}

std::uint64_t TurnScope::taken_ns() const
{
    return world().now_ns() - began_ns_ + (World::current_task()->points - points_) * kPointNs;
}

} // namespace sim

using namespace sim;

int kapi_turn_is_over(void) noexcept
{
    const TurnScope *turn = World::current_task()->turn;
    return turn && is_softirq() && turn->is_over();
}

int kapi_rx_turn_is_over(struct kapi_rx *rx) noexcept
{
    if (World::current_task()->callback_of != rx->tcb)
        broken("an offer's turn is asked for outside of rx()");
    return World::current_task()->turn->is_over();
}
