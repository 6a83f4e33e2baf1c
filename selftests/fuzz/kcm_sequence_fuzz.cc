// SPDX-License-Identifier: GPL-2.0
// Peers, a program and the environment of KCM, step by step: connections that carry messages, pieces or garbage, are reset,
// closed or not read; any call on any socket, also several at a time and interrupted; memory that is scarce, faults or
// stalls; buffers, links, namespaces, the module. Each step is eight bytes: the action, and seven of parameters; the first eight
// are the seed. At the end faults stop: messages that had to arrive have arrived, whole, once, in order, new messages pass in
// both directions on all healthy connections, unattached TCP sockets carry bytes, and all memory is freed.
#include <kapi/errno.h>
#include <kapi/sim/sim.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "selftests/fuzz/kcm_slot.h"
#include "selftests/fuzz/kcm_wire.h"
#include "selftests/fuzz/steps.h"

using namespace sim;

namespace {

constexpr unsigned kWires = 4, kSlots = 4, kThreads = 4;
constexpr kapi_u16 kPort = 7000;
constexpr std::uint64_t kDrained = 100 * kSecond; // time limit for a closed socket to send or give up
constexpr std::uint64_t kArrived = 300 * kSecond; // TCP may be slow after links were cut for long

/** The machine, its peers, and the steps. */
class Course {
public:
    explicit Course(World &world) : world_(world), peer_(world.add_node("peer")), node_(world.add_node("victim")), host_(node_)
    {
        peer_.initial_net().add(address("10.0.0.2"));
        node_.initial_net().add(address("10.0.0.1"));
    }

    Node &node() { return node_; }
    void run(const std::vector<Step> &steps);

private:
    // The steps.
    void step_of_peer(const Step &step);
    void step_of_program(const Step &step);
    void step_of_world(const Step &step);
    void send(KcmSlot &slot, const Step &step);
    void send_many(KcmSlot &slot, const Step &step);
    void receive(KcmSlot &slot, const Step &step);
    void attach(KcmSlot &slot, KcmWire *wire, const Step &step);
    void attach_wrongly(KcmSlot &slot, const Step &step);
    void unattach(KcmSlot &slot, KcmWire *wire, const Step &step);
    void set_option(KcmSlot &slot, const Step &step);
    void any_option(KcmSlot &slot, const Step &step);
    void any_control(KcmSlot &slot, const Step &step);
    void plain(const Step &step);
    void look_at_all();
    void change_buffers(KcmSlot &slot, const Step &step);
    void open_or_clone(KcmSlot &slot, const Step &step);

    void pause(std::uint64_t length_ns);
    void in_thread(KcmSlot &slot, const Step &step, std::function<void()> call);
    void wait_for_threads();
    bool wait_until(const std::function<bool()> &done, std::uint64_t limit_ns);
    KcmWire *connect(kapi_net &net);
    KcmWire *replace(const Step &step);
    KcmWire *wire_of(unsigned which) const { return current_[which % kWires]; }
    bool attach_to(KcmSlot &slot, KcmWire &wire, int filter);
    void unattached(KcmWire &wire, KcmMuxNote &mux, std::uint64_t id);
    kcm_abi_connection_stats row_of(KcmSlot &slot, const KcmWire &wire);
    std::uint64_t id_of(KcmSlot &slot, unsigned which);
    void end_namespace();
    void reload();
    void starve(unsigned one_in);
    void excuse_all();

    // The end.
    void mend();
    void settle(KcmSlot &slot);
    void converse();
    void part();
    bool is_healthy(KcmSlot &slot, KcmWire &wire);
    void judge();
    void drain();
    void finish();

    World &world_;
    Node &peer_, &node_;
    KcmHost host_;
    KcmBooks books_;
    kapi_listener *listener_ = nullptr;
    kapi_net *second_ = nullptr; // namespace
    bool is_cut_ = false;
    std::vector<int> filters_;
    std::vector<std::unique_ptr<KcmWire>> wires_; // all, also closed ones
    KcmWire *current_[kWires] = {};
    std::vector<std::unique_ptr<KcmSlot>> slots_;
    std::vector<TaskRef> threads_;
};

// ---- connections

/** Null on failure. */
KcmWire *Course::connect(kapi_net &net)
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
KcmWire *Course::replace(const Step &step)
{
    KcmWire *&wire = current_[step[1] % kWires];
    if (wire) {
        wire->close_here();
        wire->leave();
    }
    return wire = connect(step[2] % 4 == 0 && second_ ? *second_ : node_.initial_net());
}

/** KCM's statistics of a connection; id 0: it is not attached. */
kcm_abi_connection_stats Course::row_of(KcmSlot &slot, const KcmWire &wire)
{
    for (const auto &row : slot.socket.connections())
        if (row.local_port == wire.local().port && row.remote_port == wire.remote().port &&
            !std::memcmp(row.local_addr, wire.local().ip, sizeof(row.local_addr)))
            return row;
    return {};
}

std::uint64_t Course::id_of(KcmSlot &slot, unsigned which)
{
    auto rows = slot.socket.connections();
    if (rows.empty() || which % 8 == 7)
        return 4711;
    return rows[which % rows.size()].id;
}

bool Course::attach_to(KcmSlot &slot, KcmWire &wire, int filter)
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
void Course::unattached(KcmWire &wire, KcmMuxNote &mux, std::uint64_t id)
{
    wire.excused |= books_.memory_fails; // received data could not be given back
    books_.excuse_wanted(id);
    if (!mux.has_connection())
        books_.excuse_closed(mux);
}

// ---- time

/** Peers continue meanwhile. */
void Course::pause(std::uint64_t length_ns)
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

bool Course::wait_until(const std::function<bool()> &done, std::uint64_t limit_ns)
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

void Course::excuse_all()
{
    for (auto &wire : wires_)
        wire->excused = true;
}

// ---- the peer

void Course::step_of_peer(const Step &step)
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

// ---- the program

void Course::in_thread(KcmSlot &slot, const Step &step, std::function<void()> call)
{
    std::erase_if(threads_, [](const TaskRef &task) { return task->is_done(); });
    if (!(step[7] & 0x80) || threads_.size() >= kThreads)
        return call();
    slot.users++;
    TaskRef task = world_.spawn(node_, "thread", [&slot, call = std::move(call)] {
        call();
        slot.users--;
    });
    threads_.push_back(task);
    if (step[7] & 0x40)
        world_.after(step[6] * 100 * kMicrosecond, [this, task] {
            if (!task->is_done())
                world_.signal(*task);
        });
}

void Course::wait_for_threads()
{
    for (const TaskRef &task : std::exchange(threads_, {}))
        while (!task->is_done())
            world_.sleep(kMillisecond);
}

Trouble trouble_of(const Step &step, std::size_t size)
{
    Trouble trouble;
    if (step[6] % 8 == 1)
        trouble.fault_at = size * step[5] / 256;
    if (step[6] % 8 == 2) {
        trouble.stall_at = size * step[5] / 256;
        trouble.stall_ns = step[5] * 100 * kMicrosecond;
    }
    return trouble;
}

void Course::send(KcmSlot &slot, const Step &step)
{
    std::size_t size = KcmLedger::smallest + (step[2] % 4 ? step[3] : step[3] * 500u);
    KcmSlot::Sending sending{.size = size, .part = size};
    if (step[4] & 1)
        sending.flags |= KCM_ABI_MSG_DONTWAIT;
    if (step[4] & 2)
        sending.flags |= KCM_ABI_MSG_BATCH;
    sending.spliced = step[4] & 4;
    if (step[4] & 8)
        sending.part = size * step[5] / 256;
    sending.ends = !(step[4] & 16);
    if (step[4] & 32)
        sending.wanted = id_of(slot, step[5]);
    sending.trouble = trouble_of(step, sending.part);
    bool threaded = (step[7] & 0x80) != 0;
    if (threaded && !slot.is_building())
        return in_thread(slot, step, [&slot, sending] { slot.send_alone(sending); });
    if (!slot.users) // a part would join another thread's message
        slot.send(sending);
}

/** Like sendmmsg(), of which the last call may fail before it comes to KCM. */
void Course::send_many(KcmSlot &slot, const Step &step)
{
    if (slot.users)
        return;
    unsigned count = 1 + step[2] % 40u;
    for (unsigned i = 0; i < count; i++) {
        bool last = i + 1 == count && !(step[4] & 2);
        std::size_t size = KcmLedger::smallest + step[3] * (step[4] & 4 ? 100u : 1u);
        unsigned flags = (last ? 0 : KCM_ABI_MSG_BATCH) | (step[4] & 1 ? KCM_ABI_MSG_DONTWAIT : 0);
        if (!slot.send({.size = size, .part = size, .flags = flags}))
            break;
    }
    if (step[4] & 8)
        slot.flush();
}

void Course::receive(KcmSlot &slot, const Step &step)
{
    KcmSlot::Receiving receiving{.size = step[2] % 4 ? KcmWire::kLargest : step[3] * (step[4] & 8 ? 1u : 30u)};
    if (step[4] & 1)
        receiving.flags |= KCM_ABI_MSG_DONTWAIT;
    if (step[4] & 2)
        receiving.flags |= KCM_ABI_MSG_PEEK;
    if (step[4] & 16)
        receiving.flags |= KCM_ABI_MSG_TRUNC;
    receiving.spliced = step[4] & 4;
    if (step[4] & 32)
        receiving.control_room = step[5] * 4u;
    receiving.trouble = trouble_of(step, std::min<std::size_t>(receiving.size, 300));
    in_thread(slot, step, [&slot, receiving, count = 1 + step[5] % 8] {
        for (int i = 0; i < count; i++)
            if (slot.receive(receiving) < 0)
                return;
    });
}

void Course::attach(KcmSlot &slot, KcmWire *wire, const Step &step)
{
    if (!wire)
        wire = replace(step);
    if (wire)
        attach_to(slot, *wire, filters_[step[3] % 4 ? 0 : step[4] % filters_.size()]);
}

void Course::attach_wrongly(KcmSlot &slot, const Step &step)
{
    wait_for_threads();
    int pipe = program_pipe(), other = program_other_socket();
    KcmWire *wire = wire_of(step[2]);
    bool is_ours = wire && wire->taken_over() && wire->owner == slot.mux.get();
    int there = is_ours ? wire->fd() : other;
    const int fds[] = {-1, 999, pipe, other, filters_[0], there}, filters[] = {-1, 999, pipe, other, filters_[0]};
    int err = slot.socket.attach(fds[step[3] % std::size(fds)], filters[step[4] % std::size(filters)]);
    if (err >= 0)
        world_.fail("an invalid socket is attached: %d", err);
    if (step[5] % 2) {
        err = slot.socket.unattach(step[6] % 2 ? pipe : other);
        if (err != -KAPI_ENOENT)
            world_.fail("a socket that is not attached is unattached: %d", err);
    }
    program_close(pipe);
    program_close(other);
}

void Course::unattach(KcmSlot &slot, KcmWire *wire, const Step &step)
{
    if (!wire || !wire->is_open())
        return;
    in_thread(slot, step, [this, &slot, wire, nonblocking = step[4] % 2] {
        auto mux = slot.mux;
        std::uint64_t id = row_of(slot, *wire).id;
        int err = wire->is_open() ? slot.socket.unattach(wire->fd(), nonblocking) : -KAPI_ENOENT;
        if (!err)
            unattached(*wire, *mux, id);
        else if (err != -KAPI_ENOENT && err != -KAPI_EAGAIN && err != -KAPI_EINTR && err != -KAPI_EALREADY)
            world_.fail("unattach returned %d", err);
    });
}

void Course::set_option(KcmSlot &slot, const Step &step)
{
    switch (step[3] % 8) {
    case 0:
    case 1:
        slot.mux->moved = true;
        slot.socket.set_option(KCM_ABI_RECV_DISABLE, step[4] % 2);
        return;
    case 2:
        slot.socket.set_option(KCM_ABI_ERRORS, step[4] % 2);
        return;
    case 3:
        slot.socket.set_option(KCM_ABI_RECV_CONNECTION, step[4] % 2);
        return;
    case 4:
        slot.socket.set_option(KCM_ABI_MAX_MESSAGE, step[4] % 2 ? 0 : 100 << step[5] % 12);
        return;
    case 5:
        slot.socket.set_option(KCM_ABI_RECV_LENGTHS, step[4] % 2);
        return;
    default:
        slot.socket.set_option(KCM_ABI_STEERING, step[4] % 4);
    }
}

/** With lengths and memory of any kind. Options that change receiving are only read. */
void Course::any_option(KcmSlot &slot, const Step &step)
{
    static constexpr int kNames[] = {0, 1, 2, 15, 16, 17, 18, 19, 20, 21, 22, 23};
    static constexpr int kLengths[] = {-1, 0, 1, 2, 3, 4, 8, 64, 1000, 10'000};
    int name = kNames[step[3] % std::size(kNames)], length = kLengths[step[4] % std::size(kLengths)];
    std::vector<unsigned char> memory(step[5] % 4 ? 10'000 : step[5] % 16, step[6]);
    kapi_optval value{memory.data(), memory.size()};
    int err;
    if (step[2] % 2)
        err = kcm_socket_getsockopt(slot.socket.core(), name, &value, &length);
    else if (name < KCM_ABI_ERRORS || name > KCM_ABI_STATS || length < 4)
        err = name == KCM_ABI_RECV_DISABLE && length >= 4 ? 0 : kcm_socket_setsockopt(slot.socket.core(), name, &value, length);
    else
        err = kcm_socket_setsockopt(slot.socket.core(), KCM_ABI_STEERING, &value, length);
    static constexpr int kAnswers[] = {0, -KAPI_EINVAL, -KAPI_EFAULT, -KAPI_ENOPROTOOPT, -KAPI_ENOSPC, -KAPI_ENOMEM};
    if (std::find(std::begin(kAnswers), std::end(kAnswers), err) == std::end(kAnswers))
        world_.fail("an option answers %d", err);
    err = kcm_socket_ioctl(slot.socket.core(), KCM_ABI_CLONE + step[6] % 14, &value, 0);
    if (err != -KAPI_ENOIOCTLCMD)
        world_.fail("an unknown ioctl answers %d", err);
}

/** Control data with an empty send: only the control data matters. */
void Course::any_control(KcmSlot &slot, const Step &step)
{
    unsigned char control[64] = {};
    std::size_t at = 0;
    for (unsigned i = 0; i <= step[2] % 2u; i++) {
        kcm_abi_cmsghdr head{step[3] % 4 ? 24u : step[3] % 40u, step[4] % 4 ? KCM_ABI_SOL_KCM : 1, step[5] % 4};
        std::memcpy(control + at, &head, sizeof(head));
        std::uint64_t id = id_of(slot, step[6]);
        std::memcpy(control + at + sizeof(head), &id, sizeof(id));
        at += 24;
    }
    kapi_msg msg = make_msg(nullptr, 0, {});
    // Do not end a message that is being built: MSG_MORE for one type, no MSG_EOR for the other.
    kcm_send call{&msg, 0, control, step[7] % 4 ? at : step[7] % sizeof(control), KCM_ABI_MSG_MORE | KCM_ABI_MSG_BATCH, 0};
    auto result = static_cast<long>(kcm_socket_sendmsg(slot.socket.core(), &call));
    if (result > 0 || result == -KAPI_EFAULT)
        world_.fail("a send of nothing returned %ld", result);
}

/** The program's own calls on its TCP sockets. */
void Course::plain(const Step &step)
{
    KcmWire *wire = wire_of(step[1]);
    if (!wire || step[2] % 8 == 0)
        return static_cast<void>(replace(step));
    switch (step[2] % 8) {
    case 1:
    case 2:
        return wire->read_plain();
    case 3:
    case 4:
        return static_cast<void>(wire->write_plain(books_.next_sender++));
    case 5:
        wire->excused = true;
        wire->socket().rcvtimeo_ns = step[3] % 4 ? step[3] * kMillisecond : KAPI_FOREVER;
        return;
    case 6:
        wire->excused = true;
        return wire->is_open() ? program_shutdown_write(wire->fd()) : void();
    default:
        return wire->close_here();
    }
}

/** Files for administrators. */
void Course::look_at_all()
{
    static constexpr kcm_rows kIgnored{[](void *, const kcm_mux_row *) { return 0; },
                                       [](void *, const kcm_socket_row *) { return 0; },
                                       [](void *, const kcm_connection_row *) { return 0; }};
    kcm_totals totals;
    kcm_net *net = host_.net(node_.initial_net());
    kcm_net_show(net, &kIgnored, nullptr);
    kcm_net_totals(net, &totals);
    static_cast<void>(kcm_net_muxes(net));
}

void Course::change_buffers(KcmSlot &slot, const Step &step)
{
    slot.socket.sk().rcvbuf = 256u << (step[2] % 12);
    slot.socket.set_sndbuf(256u << (step[3] % 12));
    if (KcmWire *wire = wire_of(step[4]); wire && wire->is_open() && step[5] % 2) {
        wire->limit(2000u << step[6] % 8);
        program_set_buffers(wire->fd(), 2000u << step[7] % 8, 2000u << step[6] % 8);
    }
    look_at_all();
}

void Course::open_or_clone(KcmSlot &slot, const Step &step)
{
    KcmSlot &other = *slots_[step[2] % kSlots];
    if (other.is_open() && step[3] % 4)
        return slot.clone(other);
    slot.open(second_ && step[4] % 4 == 0 ? *second_ : node_.initial_net(),
              step[5] % 2 ? KCM_ABI_SOCK_SEQPACKET : KCM_ABI_SOCK_DGRAM);
}

void Course::step_of_program(const Step &step)
{
    KcmSlot &slot = *slots_[step[1] % kSlots];
    unsigned what = step[0] / 4 % 16;
    if (!slot.is_open())
        open_or_clone(slot, step);
    if (!slot.is_open())
        return;
    switch (what) {
    case 0:
    case 1:
    case 2:
        return send(slot, step);
    case 3:
        return send_many(slot, step);
    case 4:
    case 5:
        return receive(slot, step);
    case 6:
        return slot.look_and_receive(1 + step[2] * 4u);
    case 7:
        return attach(slot, wire_of(step[2]), step);
    case 8:
        return attach_wrongly(slot, step);
    case 9:
        return unattach(slot, wire_of(step[2]), step);
    case 10:
        return slot.close();
    case 11:
        return set_option(slot, step);
    case 12:
        return step[7] % 2 ? any_option(slot, step) : any_control(slot, step);
    case 13:
        return change_buffers(slot, step);
    case 14:
        return slot.poll_and_call(step[2] % 2);
    default:
        return plain(step);
    }
}

// ---- everything else

void Course::starve(unsigned one_in)
{
    books_.memory_fails = one_in != 0;
    books_.starved += one_in != 0;
    node_.faults().one_in = one_in;
}

/** All sockets in it are closed; then it ends, unless a socket of another namespace has a connection of it. */
void Course::end_namespace()
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

void Course::reload()
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

void Course::step_of_world(const Step &step)
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

// ---- the end

/** Ends all faults. */
void Course::mend()
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
void Course::settle(KcmSlot &slot)
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
void Course::drain()
{
    for (auto &slot : slots_)
        for (int errors = 0; slot->is_open() && errors < 3;)
            errors += slot->receive({.size = KcmWire::kLargest, .flags = KCM_ABI_MSG_DONTWAIT}) < 0;
    for (auto &wire : wires_)
        wire->read_plain();
}

bool Course::is_healthy(KcmSlot &slot, KcmWire &wire)
{
    if (!wire.in_frame || wire.is_too_large() || !wire.is_alive() || !wire.taken_over())
        return false; // or ends with EMSGSIZE once KCM has read so far
    auto row = row_of(slot, wire);
    return row.id && !row.error && !(row.state & KCM_ABI_CONN_RX_STOPPED);
}

/** One more message each way on each healthy connection, and one from each socket on any. */
void Course::converse()
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
void Course::judge()
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
void Course::part()
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

void Course::finish()
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

/** The first parser is for the ledger's messages; others split anywhere. */
std::vector<int> make_filters()
{
    auto constant = [](kapi_s32 said) { return program_filter([=](const unsigned char *, std::size_t) { return said; }); };
    return {program_length_filter(), constant(1), constant(37), constant(0), constant(-KAPI_EINVAL), constant(INT32_MIN),
            constant(INT32_MAX), program_filter([](const unsigned char *bytes, std::size_t size) -> kapi_s32 {
                return size < 9 ? 0 : 1 + bytes[8] % 60;
            })};
}

void Course::run(const std::vector<Step> &steps)
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

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    std::vector<Step> steps = steps_of(data, size);
    if (steps.empty())
        return 0;
    Step first = steps.front();
    steps.erase(steps.begin());
    World world(first[1]);
    Course course(world);
    auto task = world.spawn(course.node(), "course", [&] { course.run(steps); });
    if (!world.run_until([&] { return task->is_done(); }, 20'000 * kSecond))
        world.fail("stuck");
    world.run_for(200 * kSecond); // TCP ends
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t max_size, unsigned int seed)
{
    return mutate_steps(data, size, max_size, seed);
}
