// SPDX-License-Identifier: GPL-2.0
// The end of a course: faults stop, and all that is promised is checked.
#include "selftests/fuzz/kcm_course.h"

#include <algorithm>

namespace sim {

/** Ends all faults. */
void KcmCourse::mend()
{
    world_.network().heal_all();
    is_cut_ = false;
    starve(0);
    wait_for_threads();
    world_.sleep(10 * kMillisecond); // resets arrive
    for (auto &wire : wires_) {
        wire->holds = wire->deaf = false;
        if (!wire->is_alive()) // one end may not have noticed yet
            wire->reset(Sees::both);
        if (wire->is_open())
            program_set_buffers(wire->fd(), Tcb::kDefaultBuffer, Tcb::kDefaultBuffer);
    }
    world_.sleep(10 * kMillisecond);
    for (auto &slot : slots_)
        if (slot->is_open())
            settle(*slot);
}

/** Reads the socket's errors, and completes the message that it was sending. */
void KcmCourse::settle(KcmSlot &slot)
{
    slot.socket.sk().rcvbuf = 212'992;
    slot.socket.set_sndbuf(212'992);
    slot.socket.set_option(KCM_ABI_RECV_DISABLE, 0);
    slot.socket.set_option(KCM_ABI_RECV_CONNECTION, 1);
    slot.socket.set_option(KCM_ABI_MAX_MESSAGE, 0);
    auto rest_is_sent = [&] {
        drain();
        return !slot.is_building() || slot.send({.size = 0, .part = KcmWire::kLargest, .flags = KCM_ABI_MSG_DONTWAIT});
    };
    if (!wait_until(rest_is_sent, kArrived))
        world_.fail("the rest of a message is not taken");
}

/** Receives everything. */
void KcmCourse::drain()
{
    for (auto &slot : slots_)
        for (int errors = 0; slot->is_open() && errors < 3;)
            errors += slot->receive({.size = KcmWire::kLargest, .flags = KCM_ABI_MSG_DONTWAIT}) < 0;
    for (auto &wire : wires_)
        wire->read_plain();
}

bool KcmCourse::is_healthy(KcmSlot &slot, KcmWire &wire)
{
    if (!wire.in_frame || wire.is_too_large() || !wire.is_alive() || !wire.taken_over())
        return false; // or ends with EMSGSIZE once KCM has read so far
    auto row = row_of(slot, wire);
    return row.id && !row.error && !(row.state & KCM_ABI_CONN_RX_STOPPED);
}

/** One more message each way on each healthy connection, and one from each socket on any. */
void KcmCourse::converse()
{
    for (auto &slot : slots_) {
        if (!slot->is_open())
            continue;
        bool any = false;
        for (KcmWire *wire : slot->mux->wires)
            any |= is_healthy(*slot, *wire);
        KcmWire *fresh = any ? nullptr : connect(node_.initial_net());
        if (!any && (!fresh || !attach_to(*slot, *fresh, filters_[0])))
            world_.fail("a fresh connection cannot be attached");
        drain(); // errors are reported once
        std::vector<KcmWire *> done;
        for (KcmWire *wire : slot->mux->wires) {
            if (!is_healthy(*slot, *wire) || std::find(done.begin(), done.end(), wire) != done.end())
                continue;
            done.push_back(wire);
            std::uint64_t first = wire->compose(100);
            std::uint64_t id = row_of(*slot, *wire).id;
            std::uint32_t answer = 0; // the sender of it
            auto passed = [&] {
                drain();
                if (!answer && slot->send_alone({.size = 100, .part = 100, .wanted = id}) == 100)
                    answer = books_.sent.back().sender;
                return answer && wire->has_received(answer) && books_.ledger.has_arrived(wire->sender, first);
            };
            if (!wait_until(passed, kArrived))
                world_.fail("a fresh message does not pass on a healthy connection%s", answer ? "" : ": not taken");
        }
        if (slot->send_alone({.size = 100, .part = 100}) != 100)
            world_.fail("a socket with a healthy connection cannot send");
    }
}

/** Checks that all messages have arrived that must. */
void KcmCourse::judge()
{
    auto missing = [&](const KcmSent &message) {
        return !message.excused && !message.mux->excused() && !books_.ledger.has_arrived(message.sender, message.number);
    };
    auto is_missing = [&](const auto &wire) {
        return !wire->excused && !wire->lossy && (wire->unsent() || !books_.ledger.has_arrived(wire->sender));
    };
    auto all_there = [&] {
        drain();
        return std::none_of(books_.sent.begin(), books_.sent.end(), missing) &&
               std::none_of(wires_.begin(), wires_.end(), is_missing);
    };
    if (!wait_until(all_there, kArrived))
        world_.fail("messages are missing: %s", std::any_of(wires_.begin(), wires_.end(), is_missing) ? "the peers'" : "ours");
    for (auto &wire : wires_)
        if (!wire->excused && !wire->is_alive())
            world_.fail("a connection ended without a cause");
    books_.ledger.expect_sent();
}

/** Connections are unattached, and work without KCM. */
void KcmCourse::part()
{
    for (auto &slot : slots_) {
        for (KcmWire *wire : slot->is_open() ? slot->mux->wires : std::vector<KcmWire *>()) {
            if (!wire->is_open() || !row_of(*slot, *wire).id)
                continue;
            bool healthy = is_healthy(*slot, *wire);
            std::uint64_t id = row_of(*slot, *wire).id;
            auto given_back = [&] { return slot->socket.unattach(wire->fd()) == 0; };
            if (!wait_until(given_back, kArrived))
                world_.fail("a connection is not given back");
            unattached(*wire, *slot->mux, id);
            if (!healthy)
                continue;
            std::uint32_t sender = books_.next_sender++;
            std::uint64_t number = wire->compose(100);
            bool sent = wire->write_plain(sender);
            auto passed = [&] {
                wire->read_plain();
                return sent && books_.ledger.has_arrived(wire->sender, number) && books_.ledger.has_arrived(sender, 0);
            };
            if (!wait_until(passed, kArrived))
                world_.fail("a connection that was given back carries nothing");
        }
    }
}

void KcmCourse::finish()
{
    for (auto &slot : slots_)
        slot->close();
    for (auto &wire : wires_) {
        wire->close_here();
        wire->leave();
    }
    for (int filter : filters_)
        program_close(filter);
    {
        NodeScope scope(peer_);
        program_unlisten(listener_);
    }
    if (!host_.unload_soon(kDrained))
        world_.fail("the module does not unload");
}

} // namespace sim
