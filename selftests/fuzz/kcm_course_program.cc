// SPDX-License-Identifier: GPL-2.0
// The steps of the program.
#include "selftests/fuzz/kcm_course.h"

#include <kapi/errno.h>
#include <algorithm>
#include <cstring>
#include <utility>

namespace sim {

void KcmCourse::in_thread(KcmSlot &slot, const Step &step, std::function<void()> call)
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

void KcmCourse::wait_for_threads()
{
    for (const TaskRef &task : std::exchange(threads_, {}))
        while (!task->is_done())
            world_.sleep(kMillisecond);
}

static Trouble trouble_of(const Step &step, std::size_t size)
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

void KcmCourse::send(KcmSlot &slot, const Step &step)
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
void KcmCourse::send_many(KcmSlot &slot, const Step &step)
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

void KcmCourse::receive(KcmSlot &slot, const Step &step)
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

void KcmCourse::attach(KcmSlot &slot, KcmWire *wire, const Step &step)
{
    if (!wire)
        wire = replace(step);
    if (wire)
        attach_to(slot, *wire, filters_[step[3] % 4 ? 0 : step[4] % filters_.size()]);
}

void KcmCourse::attach_wrongly(KcmSlot &slot, const Step &step)
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

void KcmCourse::unattach(KcmSlot &slot, KcmWire *wire, const Step &step)
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

void KcmCourse::set_option(KcmSlot &slot, const Step &step)
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
void KcmCourse::any_option(KcmSlot &slot, const Step &step)
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
void KcmCourse::any_control(KcmSlot &slot, const Step &step)
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
void KcmCourse::plain(const Step &step)
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
void KcmCourse::look_at_all()
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

void KcmCourse::change_buffers(KcmSlot &slot, const Step &step)
{
    slot.socket.sk().rcvbuf = 256u << (step[2] % 12);
    slot.socket.set_sndbuf(256u << (step[3] % 12));
    if (KcmWire *wire = wire_of(step[4]); wire && wire->is_open() && step[5] % 2) {
        wire->limit(2000u << step[6] % 8);
        program_set_buffers(wire->fd(), 2000u << step[7] % 8, 2000u << step[6] % 8);
    }
    look_at_all();
}

void KcmCourse::open_or_clone(KcmSlot &slot, const Step &step)
{
    KcmSlot &other = *slots_[step[2] % kSlots];
    if (other.is_open() && step[3] % 4)
        return slot.clone(other);
    slot.open(second_ && step[4] % 4 == 0 ? *second_ : node_.initial_net(),
              step[5] % 2 ? KCM_ABI_SOCK_SEQPACKET : KCM_ABI_SOCK_DGRAM);
}

void KcmCourse::step_of_program(const Step &step)
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

} // namespace sim
