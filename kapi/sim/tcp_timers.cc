// SPDX-License-Identifier: GPL-2.0
// When the simulated TCP sends again, probes, and gives up.
#include "tcp.h"

#include <kapi/errno.h>

#include <algorithm>
#include <utility>

namespace sim {

namespace {

constexpr unsigned kSynRetries = 6;
constexpr unsigned kProbes = 15; // as net.ipv4.tcp_retries2
// What 15 retransmissions take when each waits twice as long as the one before, up to the longest. The kernel counts the time.
constexpr std::uint64_t kGiveUpNs = 924'600 * kMillisecond;
constexpr unsigned kOrphanRetries = 8;
constexpr std::uint64_t kLongestRetransmitNs = 120 * kSecond;
constexpr std::uint64_t kTimeWaitNs = kSecond;       // shorter than real: simulated hosts make many connections
constexpr std::uint64_t kOrphanNs = 60 * kSecond;
constexpr std::uint64_t kPromiseNs = 50 * kMillisecond; // less than TCP's own timer

} // namespace

std::uint64_t Tcb::timeout_ns() const
{
    std::uint64_t now = world.now_ns();
    auto backed_off = [&](std::uint64_t first) {
        return now + std::min(first << std::min(backoff, 12u), kLongestRetransmitNs);
    };
    switch (state) {
    case TcpState::syn_sent:
    case TcpState::syn_received:
        return backed_off(kSecond);
    case TcpState::time_wait:
        return now + kTimeWaitNs;
    case TcpState::closed:
        return 0;
    case TcpState::established:
        break;
    }
    if (una != next || next != write_seq + fin_queued)
        return backed_off(retransmit_ns); // unacknowledged, or a closed window to probe
    if (orphan)
        return now + kOrphanNs;
    if (!options.keepalive_idle_s)
        return 0;
    return probes ? now + options.keepalive_interval_s * kSecond
                  : node->world_time(last_heard_ns + options.keepalive_idle_s * kSecond);
}

void Tcb::set_timer()
{
    timer_retransmits = una != next || next != write_seq + fin_queued;
    set_timer(timeout_ns());
}

void Tcb::set_timer(std::uint64_t when)
{
    world.cancel(timer);
    if (when)
        timer = world.at(when, [weak = weak_from_this()] {
            if (auto self = weak.lock()) {
                self->timer = {};
                self->post({Input::timeout, nullptr});
            }
        });
}

void Tcb::limit_back_off(std::uint64_t limit_ns)
{
    limit_ns = std::max(limit_ns, 3 * shortest_trip_ns);
    if (state != TcpState::established || !timer_retransmits || timer.time_ns <= world.now_ns() + limit_ns)
        return;
    backoff = 0;
    retransmit_ns = std::min(retransmit_ns, limit_ns);
    probes = std::min(probes, 1u);
    set_timer(world.now_ns() + limit_ns);
}

void Tcb::handle_timeout()
{
    if (timer.armed())
        return; // a packet came in between and moved it
    switch (state) {
    case TcpState::closed:
        return;
    case TcpState::time_wait:
        close(0);
        return;
    case TcpState::syn_sent:
    case TcpState::syn_received:
        backoff++;
        if (++retries > kSynRetries)
            return close(-KAPI_ETIMEDOUT);
        send_syn();
        return set_timer();
    case TcpState::established:
        break;
    }
    if (una != next) {
        backoff++;
        if (!retries++)
            retries_since_ns = world.now_ns();
        if (orphan ? retries > kOrphanRetries : world.now_ns() - retries_since_ns >= kGiveUpNs)
            return close(-KAPI_ETIMEDOUT);
        slow_down();
        next = una;
        push_one();
    } else if (next != write_seq + fin_queued) {
        probe();
        if (state == TcpState::closed)
            return;
    } else if (orphan) {
        return close(0);
    } else if (node->now_ns() >= last_heard_ns + options.keepalive_idle_s * kSecond) {
        if (++probes > options.keepalive_count) {
            reset_peer();
            return close(-KAPI_ETIMEDOUT);
        }
        send_ack(una - 1);
    }
    set_timer();
}

/** Something is to be sent and nothing is on its way: the window is closed, or more was to come. */
void Tcb::probe()
{
    holds_back = false;
    if (push_one())
        return;
    backoff++;
    if (++probes > kProbes)
        return close(-KAPI_ETIMEDOUT);
    send_ack(una - 1);
}

void Tcb::watch_promise()
{
    if (promise_due_ns)
        return;
    promise_due_ns = world.now_ns() + kPromiseNs;
    world.at(promise_due_ns, [weak = weak_from_this()] {
        if (auto self = weak.lock())
            self->post({Input::promise, nullptr});
    });
}

/** What was announced to follow at once has followed, or has been taken back: it is not left to a timer of TCP's. */
void Tcb::check_promise()
{
    std::uint64_t now = world.now_ns();
    bool late = now - std::exchange(promise_due_ns, 0) > kMillisecond; // the machine stood still, or a program had the lock
    // While something is on its way, an acknowledgement is to come, with which the rest goes.
    if (state != TcpState::established || !holds_back || next != una || next == write_seq)
        return;
    if (!late && now - appended_ns >= kPromiseNs)
        broken("port %u to %u: TCP held %u bytes back for more, which did not come", local.port, remote.port, write_seq - next);
    watch_promise();
}

} // namespace sim
