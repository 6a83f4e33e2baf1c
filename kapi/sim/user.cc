// SPDX-License-Identifier: GPL-2.0
// Sockets and user memory.
#include "user.h"

#include <kapi/errno.h>
#include <kapi/share.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lock.h"
#include "node.h"

namespace sim {

namespace {

constexpr int kSolSocket = 1;
constexpr int kTimestampOld = 29;
constexpr std::size_t kControlHeader = 16; // struct cmsghdr on a 64-bit host

/** Whether the program's next size bytes can be touched; takes the time that takes. */
bool touch(const kapi_msg &msg, std::size_t size)
{
    enter_any("user copy");
    std::size_t end = msg.at + size;
    std::size_t stall_at = msg.stall_at;
    if (msg.stall_every && msg.at > stall_at)
        stall_at += (msg.at - stall_at + msg.stall_every - 1) / msg.stall_every * msg.stall_every;
    if (stall_at >= msg.at && stall_at < end)
        world().sleep(msg.stall_ns);
    if (size > msg.size - msg.at || (msg.fault_at >= msg.at && msg.fault_at < end))
        return false;
    return true;
}

/** The kernel keeps these two as a socket's error, too, after a recvmmsg() that was interrupted: they are none. */
int real_error(int error)
{
    return error == KAPI_ERESTARTSYS || error == KAPI_EINTR ? 0 : error;
}

} // namespace

kapi_msg make_msg(const void *data, std::size_t size, const Trouble &trouble)
{
    kapi_msg msg{};
    msg.memory = static_cast<unsigned char *>(const_cast<void *>(data));
    msg.size = size;
    msg.fault_at = trouble.fault_at;
    msg.stall_at = trouble.stall_at;
    msg.stall_every = trouble.stall_every;
    msg.stall_ns = trouble.stall_ns;
    msg.control_faults = trouble.control_faults;
    return msg;
}

kapi_sk *make_sk(kapi_net &net)
{
    static kapi_u64 inode = 1000;
    Node *node = Node::current();
    node->live_sockets++;
    auto *sk = new kapi_sk{};
    sk->node = node;
    sk->net = &net;
    net.sockets++;
    sk->inode = inode++;
    node->adopt(sk, [](void *object) { delete static_cast<kapi_sk *>(object); });
    return sk;
}

} // namespace sim

using namespace sim;

void kapi_sk_hold(struct kapi_sk *sk) noexcept
{
    enter_any("kapi_sk_hold");
    if (!sk->references)
        broken("a dead socket is held");
    sk->references++;
}

int kapi_sk_hold_unless_dead(struct kapi_sk *sk) noexcept
{
    enter_any("kapi_sk_hold_unless_dead");
    if (!sk->references)
        return 0;
    sk->references++;
    return 1;
}

void kapi_sk_put(struct kapi_sk *sk) noexcept
{
    enter_any("kapi_sk_put");
    if (!sk->references)
        broken("a dead socket is put");
    if (--sk->references)
        return;
    if (sk->destructor)
        sk->destructor(sk->core);
    if (sk->charged)
        broken("a socket has ended and %zu bytes are charged to it", sk->charged);
    sk->node->live_sockets--;
    sk->net->sockets--;
    sk->node->disown(sk);
    delete sk;
}

int kapi_sk_charge(struct kapi_sk *sk, kapi_size size) noexcept
{
    enter_bottom_halves("kapi_sk_charge");
    Node &node = *sk->node;
    std::size_t &of_user = node.charged_to_users[sk->user];
    int share = kapi_share(sk->charged, of_user, node.socket_memory - node.charged_to_sockets, size);
    std::size_t held = sk->charged + size;
    if (fault("kapi_sk_charge") || share < 0 || held > std::max<std::size_t>(sk->charge_limit, KAPI_GUARANTEED))
        return -KAPI_ENOMEM;
    sk->charged = held;
    of_user += size;
    node.charged_to_sockets += size;
    return share || held > sk->charge_limit;
}

kapi_u32 kapi_sk_user(struct kapi_sk *sk) noexcept
{
    enter_any("kapi_sk_user");
    return kapi_user_number(sk->user);
}

kapi_u32 kapi_user_number(kapi_u32 user) noexcept
{
    return (user ^ 0x155) % KAPI_USERS; // not the user's own
}

void kapi_sk_uncharge(struct kapi_sk *sk, kapi_size size) noexcept
{
    enter_bottom_halves("kapi_sk_uncharge");
    if (size > sk->charged)
        broken("%zu bytes are given back of %zu that are charged", static_cast<std::size_t>(size), sk->charged);
    sk->charged -= size;
    sk->node->charged_to_users[sk->user] -= size;
    sk->node->charged_to_sockets -= size;
}

kapi_u32 kapi_sk_sndbuf(struct kapi_sk *sk) noexcept
{
    return sk->sndbuf;
}

int kapi_sk_sndbuf_is_set(struct kapi_sk *sk) noexcept
{
    return sk->sndbuf.is_set();
}

int kapi_sk_rcvbuf_is_set(struct kapi_sk *sk) noexcept
{
    return sk->rcvbuf.is_set();
}

kapi_u32 kapi_sk_rcvbuf(struct kapi_sk *sk) noexcept
{
    return sk->rcvbuf;
}

kapi_u64 kapi_sk_sndtimeo_ns(struct kapi_sk *sk) noexcept
{
    return sk->sndtimeo_ns;
}

kapi_u64 kapi_sk_rcvtimeo_ns(struct kapi_sk *sk) noexcept
{
    return sk->rcvtimeo_ns;
}

int kapi_sk_has_error(struct kapi_sk *sk) noexcept
{
    return real_error(sk->error) != 0;
}

void kapi_sk_set_error(struct kapi_sk *sk, int error) noexcept
{
    enter_any("kapi_sk_set_error");
    if (error <= 0)
        broken("the error %d is set", error);
    note_signal(); // the kernel's reports it, too
    sk->error = error;
}

void kapi_sk_signal(struct kapi_sk *sk, unsigned event) noexcept
{
    enter_any("kapi_sk_signal");
    note_signal();
    (event & KAPI_IN ? sk->signals_in : sk->signals_out)++;
}

int kapi_sk_take_error(struct kapi_sk *sk) noexcept
{
    enter_any("kapi_sk_take_error");
    return -real_error(std::exchange(sk->error, 0));
}

int kapi_sk_zerocopy(struct kapi_sk *sk) noexcept
{
    return sk->zerocopy;
}

int kapi_sk_timestamps(struct kapi_sk *sk) noexcept
{
    return sk->timestamps != 0;
}

void kapi_sk_set_timestamps(struct kapi_sk *sk, int optname, int on) noexcept
{
    sk->timestamps = on ? optname : 0;
}

int kapi_sk_ifindex(struct kapi_sk *sk) noexcept
{
    return sk->ifindex;
}

kapi_u64 kapi_sk_inode(struct kapi_sk *sk) noexcept
{
    enter_bottom_halves("kapi_sk_inode");
    return sk->inode;
}

kapi_size kapi_msg_left(const struct kapi_msg *msg) noexcept
{
    return msg->size - msg->at;
}

int kapi_msg_copy_in(struct kapi_msg *msg, void *to, kapi_size size) noexcept
{
    enter_task("kapi_msg_copy_in");
    if (!touch(*msg, size))
        return -KAPI_EFAULT;
    if (size)
        std::memcpy(to, msg->memory + msg->at, size);
    msg->at += size;
    return 0;
}

int kapi_msg_copy_out(struct kapi_msg *msg, const void *from, kapi_size size) noexcept
{
    enter_task("kapi_msg_copy_out");
    if (!touch(*msg, size))
        return -KAPI_EFAULT;
    if (size)
        std::memcpy(msg->memory + msg->at, from, size);
    msg->at += size;
    return 0;
}

void kapi_msg_save(const struct kapi_msg *msg, struct kapi_msg_mark *mark) noexcept
{
    mark->opaque[0] = msg->at;
}

void kapi_msg_restore(struct kapi_msg *msg, const struct kapi_msg_mark *mark) noexcept
{
    msg->at = mark->opaque[0];
}

int kapi_msg_put_cmsg(struct kapi_msg *msg, int level, int type, const void *data, kapi_size size) noexcept
{
    enter_task("kapi_msg_put_cmsg");
    std::size_t room = msg->control_room;
    if (room < kControlHeader) {
        msg->control_truncated = true;
        return 0;
    }
    if (msg->control_faults)
        return -KAPI_EFAULT;
    std::size_t taken = kControlHeader + size;
    if (taken > room) {
        msg->control_truncated = true;
        taken = room;
    }
    const auto *bytes = static_cast<const unsigned char *>(data);
    msg->control.push_back({level, type, {bytes, bytes + (taken - kControlHeader)}});
    std::size_t aligned = (taken + 7) & ~std::size_t{7};
    msg->control_room -= aligned < room ? aligned : room;
    return 0;
}

kapi_s64 kapi_msg_cmsg_room(const struct kapi_msg *msg) noexcept
{
    enter_task("kapi_msg_cmsg_room");
    return static_cast<kapi_s64>(msg->control_room) - static_cast<kapi_s64>(kControlHeader);
}

int kapi_msg_put_timestamp(struct kapi_msg *msg, struct kapi_sk *sk, kapi_u64 real_ns) noexcept
{
    const long long stamp[2] = {static_cast<long long>(real_ns / kSecond),
                                static_cast<long long>(real_ns % kSecond / kMicrosecond)};
    return kapi_msg_put_cmsg(msg, kSolSocket, sk->timestamps ? sk->timestamps : kTimestampOld, stamp, sizeof(stamp));
}

int kapi_optval_copy_in(const struct kapi_optval *optval, void *to, kapi_size size) noexcept
{
    enter_task("kapi_optval_copy_in");
    if (size > optval->size)
        return -KAPI_EFAULT;
    if (size)
        std::memcpy(to, optval->memory, size);
    return 0;
}

int kapi_optval_probe_out(const struct kapi_optval *optval, kapi_size size) noexcept
{
    enter_task("kapi_optval_probe_out");
    return size > optval->size ? -KAPI_EFAULT : 0;
}

// A program's address is a host pointer to its memory; 0 is the one that faults.
int kapi_user_copy_in(void *to, kapi_u64 address, kapi_size size) noexcept
{
    enter_task("kapi_user_copy_in");
    if (address == 0 && size)
        return -KAPI_EFAULT;
    if (size)
        std::memcpy(to, reinterpret_cast<const void *>(static_cast<std::uintptr_t>(address)), size);
    return 0;
}

int kapi_user_copy_out(kapi_u64 address, const void *from, kapi_size size) noexcept
{
    enter_task("kapi_user_copy_out");
    if (address == 0 && size)
        return -KAPI_EFAULT;
    if (size)
        std::memcpy(reinterpret_cast<void *>(static_cast<std::uintptr_t>(address)), from, size);
    return 0;
}

int kapi_optval_copy_out(const struct kapi_optval *optval, kapi_size offset, const void *from, kapi_size size) noexcept
{
    enter_task("kapi_optval_copy_out");
    if (offset > optval->size || size > optval->size - offset)
        return -KAPI_EFAULT;
    if (size)
        std::memcpy(optval->memory + offset, from, size);
    return 0;
}
