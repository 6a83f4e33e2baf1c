// SPDX-License-Identifier: GPL-2.0
// Connections, time and the steps of all but the program.
#include "selftests/fuzz/kcm_course.h"

#include <kapi/errno.h>
#include <algorithm>
#include <cstring>
#include <utility>

namespace sim {

// ---- connections

/** Null on failure. */
KcmWire *KcmCourse::connect(kapi_net &net)
{
    if (is_cut_)
        return nullptr;
    kapi_addr own = address(&net == second_ ? "10.0.1.1" : "10.0.0.1");
    int here = program_connect(net, own, address("10.0.0.2", kPort));
    if (here < 0)
        return nullptr;
    int there;
    {
        NodeScope scope(peer_);
        there = program_accept(listener_);
    }
    std::uint64_t place = books_.next_place;
    books_.next_place += 2;
    wires_.push_back(std::make_unique<KcmWire>(peer_, books_.ledger, books_.next_sender++, place, here, there));
    return wires_.back().get();
}

/** A new connection instead of the one at this place. */
KcmWire *KcmCourse::replace(const Step &step)
{
    KcmWire *&wire = current_[step[1] % kWires];
    if (wire) {
        wire->close_here();
        wire->leave();
    }
    return wire = connect(step[2] % 4 == 0 && second_ ? *second_ : node_.initial_net());
}

/** KCM's statistics of a connection; id 0: it is not attached. */
kcm_abi_connection_stats KcmCourse::row_of(KcmSlot &slot, const KcmWire &wire)
{
    for (const auto &row : slot.socket.connections())
        if (row.local_port == wire.local().port && row.remote_port == wire.remote().port &&
            !std::memcmp(row.local_addr, wire.local().ip, sizeof(row.local_addr)))
            return row;
    return {};
}

std::uint64_t KcmCourse::id_of(KcmSlot &slot, unsigned which)
{
    auto rows = slot.socket.connections();
    if (rows.empty() || which % 8 == 7)
        return 4711;
    return rows[which % rows.size()].id;
}

bool KcmCourse::attach_to(KcmSlot &slot, KcmWire &wire, int filter)
{
    if (!wire.is_open() || wire.taken_over() || wire.has_plain_rest())
        return false;
    if (filter != filters_[0]) {
        wire.in_frame = false;
        wire.excused = true;
    }
    int largest = slot.socket.get_option(KCM_ABI_MAX_MESSAGE);
    kapi_u32 rcvbuf = wire.socket().tcb->rcvbuf();
    wire.limit(largest > 0 ? static_cast<std::size_t>(largest) : rcvbuf);
    slot.mux->wires.push_back(&wire);
    wire.owner = slot.mux.get();
    int err = slot.socket.attach(wire.fd(), filter);
    if (err && err != -KAPI_EOPNOTSUPP && !(err == -KAPI_ENOMEM && books_.memory_fails))
        world_.fail("attach returned %d", err);
    if (err == -KAPI_EOPNOTSUPP && !wire.excused)
        world_.fail("a connection that is up cannot be attached");
    return !err;
}

/** The wire is unattached, or being unattached. */
void KcmCourse::unattached(KcmWire &wire, KcmMuxNote &mux, std::uint64_t id)
{
    wire.excused |= books_.memory_fails; // received data could not be given back
    books_.excuse_wanted(id);
    if (!mux.has_connection())
        books_.excuse_closed(mux);
}

// ---- time

/** Peers continue meanwhile. */
void KcmCourse::pause(std::uint64_t length_ns)
{
    constexpr unsigned kSlices = 8;
    if (length_ns >= 10 * kSecond)
        excuse_all(); // peers with closed sockets give up
    for (unsigned i = 0; i < kSlices; i++) {
        world_.sleep(length_ns / kSlices);
        for (KcmWire *wire : current_) {
            if (wire && !wire->holds)
                wire->write();
            if (wire)
                wire->read_on();
        }
    }
}

bool KcmCourse::wait_until(const std::function<bool()> &done, std::uint64_t limit_ns)
{
    std::uint64_t end_ns = world_.now_ns() + limit_ns;
    for (std::uint64_t nap_ns = kMillisecond; !done(); nap_ns = std::min(2 * nap_ns, 100 * kMillisecond)) {
        if (world_.now_ns() >= end_ns)
            return false;
        world_.sleep(nap_ns);
        for (auto &wire : wires_) {
            wire->write();
            wire->read_on();
        }
    }
    return true;
}

void KcmCourse::excuse_all()
{
    for (auto &wire : wires_)
        wire->excused = true;
}

// ---- the peer

void KcmCourse::step_of_peer(const Step &step)
{
    KcmWire *wire = wire_of(step[1]);
    if (!wire)
        wire = replace(step);
    if (!wire)
        return;
    switch (step[0] / 4 % 8) {
    case 0:
        for (unsigned i = 0; i <= step[2] % 80u; i++)
            wire->compose(KcmLedger::smallest + step[3] % 64u * i % 97);
        return wire->write();
    case 1:
        wire->compose(KcmLedger::smallest + 700u * step[2]);
        return wire->write();
    case 2:
        wire->holds = true;
        wire->compose(KcmLedger::smallest + step[2] * (step[4] % 4 ? 1u : 50u));
        return wire->write(step[3]);
    case 3:
        wire->holds = false;
        return wire->write();
    case 4:
        wire->babble(std::string(1 + step[2] % 100u, static_cast<char>(step[3])));
        return wire->write();
    case 5:
        return wire->reset(static_cast<Sees>(step[2] % 3));
    case 6:
        return step[2] % 2 ? wire->finish() : wire->leave();
    default:
        wire->deaf = step[2] % 2;
    }
}

// ---- everything else

void KcmCourse::starve(unsigned one_in)
{
    books_.memory_fails = one_in != 0;
    books_.starved += one_in != 0;
    node_.faults().one_in = one_in;
}

/** All sockets in it are closed; then it ends, unless a socket of another namespace has a connection of it. */
void KcmCourse::end_namespace()
{
    if (!second_)
        return;
    wait_for_threads();
    for (auto &slot : slots_)
        if (slot->is_open() && slot->socket.sk().net == second_)
            slot->close();
    excuse_all(); // waiting may take long
    auto is_held = [&](const auto &wire) { return wire->net() == second_ && wire->taken_over(); };
    wait_until([&] { return std::none_of(wires_.begin(), wires_.end(), is_held); }, kDrained);
    if (std::any_of(wires_.begin(), wires_.end(), is_held))
        return;
    for (auto &wire : wires_)
        if (wire->net() == second_)
            wire->close_here();
    if (!host_.delete_net(*second_, kDrained))
        world_.fail("a namespace is kept although no socket is open in it");
    second_ = nullptr;
}

void KcmCourse::reload()
{
    wait_for_threads();
    for (auto &slot : slots_)
        slot->close();
    excuse_all();
    if (!host_.unload_soon(kDrained))
        world_.fail("the module does not unload");
    std::uint64_t rate = std::exchange(node_.faults().one_in, 0);
    if (host_.load())
        world_.fail("the module does not load again");
    node_.faults().one_in = rate;
}

void KcmCourse::step_of_world(const Step &step)
{
    switch (step[0] / 4 % 8) {
    case 0:
        is_cut_ = step[1] % 2;
        return world_.network().cut(peer_, node_, is_cut_);
    case 1:
        if (step[2] % 4 == 0) {
            excuse_all();
            world_.network().reset(peer_, node_, static_cast<Sees>(step[1] % 3));
        }
        return;
    case 2:
        return starve(step[1] % 4 ? 0 : 1 + step[2] % 12);
    case 3:
        if (step[1] % 2)
            return end_namespace();
        if (!second_ && !books_.memory_fails) {
            second_ = &node_.add_net();
            second_->add(address("10.0.1.1"));
            if (host_.add_net(*second_))
                world_.fail("a namespace is not made");
        }
        return;
    case 4:
        return step[1] % 4 ? void() : reload();
    case 5:
        return step[1] % 8 ? void() : pause(61 * kSecond);
    default:
        return pause((std::uint64_t{1} << (step[1] % 16)) * 50 * kMicrosecond);
    }
}

/** The first parser is for the ledger's messages; others split anywhere. */
static std::vector<int> make_filters()
{
    auto constant = [](kapi_s32 said) { return program_filter([=](const unsigned char *, std::size_t) { return said; }); };
    return {program_length_filter(), constant(1), constant(37), constant(0), constant(-KAPI_EINVAL), constant(INT32_MIN),
            constant(INT32_MAX), program_filter([](const unsigned char *bytes, std::size_t size) -> kapi_s32 {
                return size < 9 ? 0 : 1 + bytes[8] % 60;
            })};
}

void KcmCourse::run(const std::vector<Step> &steps)
{
    if (host_.load())
        world_.fail("the module does not load");
    {
        NodeScope scope(peer_);
        listener_ = program_listen(peer_.initial_net(), address("::", kPort));
    }
    filters_ = make_filters();
    for (unsigned i = 0; i < kSlots; i++)
        slots_.push_back(std::make_unique<KcmSlot>(host_, books_));
    for (const Step &step : steps) {
        switch (step[0] % 4) {
        case 0:
            step_of_peer(step);
            break;
        case 1:
        case 2:
            step_of_program(step);
            break;
        default:
            step_of_world(step);
        }
        if (step[0] & 0x80)
            pause(2 * kMillisecond);
    }
    mend();
    converse();
    judge();
    part();
    finish();
}

} // namespace sim
