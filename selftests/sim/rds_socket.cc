// SPDX-License-Identifier: GPL-2.0
// Sockets of the simulated programs, and their names.
#include "rds_host.h"

#include <kapi/errno.h>
#include <kapi/sim/wake.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "net/rds/socket.h"
#include "net/rds/uapi.h"

SocketName::SocketName(const kapi_addr &addr) : bytes{}
{
    static const unsigned char kV4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    bool is4 = std::memcmp(addr.ip, kV4, sizeof(kV4)) == 0;
    unsigned short family = is4 ? RDS_ABI_AF_INET : RDS_ABI_AF_INET6;
    std::memcpy(bytes, &family, 2);
    bytes[2] = static_cast<unsigned char>(addr.port >> 8);
    bytes[3] = static_cast<unsigned char>(addr.port);
    if (is4) {
        std::memcpy(bytes + 4, addr.ip + 12, 4);
    } else {
        std::memcpy(bytes + 8, addr.ip, 16);
        std::memcpy(bytes + 24, &addr.scope, 4);
    }
    size = is4 ? 16 : 28;
}

kapi_addr address_of(const unsigned char *name, int size)
{
    kapi_addr addr{};
    if (size < 16)
        return addr;
    unsigned short family;
    std::memcpy(&family, name, 2);
    addr.port = static_cast<kapi_u16>(name[2] << 8 | name[3]);
    if (family == RDS_ABI_AF_INET) {
        addr.ip[10] = addr.ip[11] = 0xff;
        std::memcpy(addr.ip + 12, name + 4, 4);
    } else {
        std::memcpy(addr.ip, name + 8, 16);
        std::memcpy(&addr.scope, name + 24, 4);
    }
    return addr;
}

int RdsSocket::open(kapi_net &net)
{
    if (!kapi_module_get(&host_.rds_module()))
        return -KAPI_EAFNOSUPPORT;
    kapi_sk *sk = sim::make_sk(net);
    if (int err = rds_socket_create(host_.net(net).rds, sk, &core_)) {
        kapi_sk_put(sk);
        kapi_module_put(&host_.rds_module());
        return err;
    }
    sk->core = core_;
    sk->destructor = [](void *core) { rds_socket_destroy(static_cast<rds_socket *>(core)); };
    sk_ = sk;
    return 0;
}

void RdsSocket::close()
{
    if (!sk_)
        return;
    rds_socket_release(core_);
    kapi_sk_put(std::exchange(sk_, nullptr));
    kapi_module_put(&host_.rds_module());
}

int RdsSocket::bind(const kapi_addr &addr)
{
    SocketName name(addr);
    return rds_socket_bind(core_, name.bytes, name.size);
}

int RdsSocket::connect(const kapi_addr &addr)
{
    SocketName name(addr);
    return rds_socket_connect(core_, name.bytes, name.size);
}

namespace {

/** Whether this call's thread has queue on its stack: it waits for a congested port. top is a variable of the caller. */
bool is_on_stack(const kapi_waitq &queue, const void *top)
{
    char here = 0;
    auto address = [](const void *of) { return reinterpret_cast<std::uintptr_t>(of); };
    return address(&queue) > address(&here) && address(&queue) < address(top);
}

/** A wake-up of a sender to `to` is due: its socket has nothing on its way, or the port is free. */
bool sender_is_due(rds::Socket &socket, const kapi_addr &to, kapi_waitq &queue, const void *top)
{
    if (&queue == socket.senders.c())
        return socket.info().sending == 0;
    if (!is_on_stack(queue, top))
        return false;
    rds::Endpoint address{rds::Ip::from(to.ip), 0, to.scope};
    for (rds::CongestionMaps *maps : {&socket.net.own_maps, &socket.net.maps_of_peers(false), &socket.net.maps_of_peers(true)})
        if (auto map = maps->find(address); map && map->congested(to.port))
            return false;
    return true;
}

long send_call(rds_socket *core, rds_send &call, const kapi_addr &to)
{
    char top = 0;
    auto &socket = *reinterpret_cast<rds::Socket *>(core);
    sim::ExpectWakeups expect([&](kapi_waitq &queue) { return sender_is_due(socket, to, queue, &top); });
    return static_cast<long>(rds_socket_sendmsg(core, &call));
}

} // namespace

long RdsSocket::send(const void *data, std::size_t size, const kapi_addr &to, unsigned flags)
{
    SocketName name(to);
    kapi_msg msg = message(data, size);
    rds_send call{&msg, size, name.bytes, name.size, nullptr, 0, flags};
    return send_call(core_, call, to);
}

kapi_msg RdsSocket::message(const void *data, std::size_t size)
{
    return sim::make_msg(data, size, std::exchange(trouble, {}));
}

long RdsSocket::send_pinned(const void *data, std::size_t size, const kapi_addr &to, std::uint32_t cookie,
                            unsigned flags)
{
    SocketName name(to);
    kapi_msg msg = message(data, size);
    struct {
        rds_abi_cmsghdr header;
        std::uint32_t cookie, unused;
    } control{{sizeof(rds_abi_cmsghdr) + sizeof(cookie), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_ZCOPY_COOKIE}, cookie, 0};
    rds_send call{&msg, size, name.bytes, name.size, &control, sizeof(control), flags | RDS_ABI_MSG_ZEROCOPY};
    return send_call(core_, call, to);
}

long RdsSocket::send_each(const void *data, std::size_t size, const kapi_addr &to, const std::vector<std::uint32_t> &lengths,
                          unsigned flags)
{
    SocketName name(to);
    kapi_msg msg = message(data, size);
    rds_abi_cmsghdr head{sizeof(head) + lengths.size() * sizeof(lengths[0]), RDS_ABI_SOL_RDS, RDS_ABI_CMSG_LENGTHS};
    std::vector<unsigned char> control(RDS_ABI_CMSG_ALIGN(head.cmsg_len));
    std::memcpy(control.data(), &head, sizeof(head));
    if (!lengths.empty())
        std::memcpy(control.data() + sizeof(head), lengths.data(), head.cmsg_len - sizeof(head));
    rds_send call{&msg, size, name.bytes, name.size, control.data(), control.size(), flags};
    return send_call(core_, call, to);
}

template <class T> static std::vector<T> array_in(const kapi_msg::Control &control)
{
    std::vector<T> items(control.data.size() / sizeof(T));
    if (!items.empty())
        std::memcpy(items.data(), control.data.data(), items.size() * sizeof(T));
    return items;
}

RdsSocket::Run RdsSocket::receive_run(void *data, std::size_t size, unsigned flags, std::size_t control_room)
{
    kapi_msg msg = message(data, size);
    msg.control_room = control_room;
    rds_receive call{};
    call.msg = &msg;
    call.size = size;
    call.flags = flags;
    auto &socket = *reinterpret_cast<rds::Socket *>(core_);
    sim::ExpectWakeups expect([&](kapi_waitq &queue) { return &queue == socket.receivers.c() && socket.info().unread; });
    Run run;
    run.result = static_cast<long>(rds_socket_recvmsg(core_, &call));
    run.flags = call.out_flags;
    run.from = address_of(call.name, call.name_length);
    for (const auto &control : msg.control) {
        if (control.type == RDS_ABI_CMSG_LENGTHS)
            run.lengths = array_in<std::uint32_t>(control);
        if (control.type == RDS_ABI_CMSG_ZCOPY_COMPLETION)
            for (const auto &done : array_in<rds_abi_zcopy_cookies>(control))
                run.cookies.insert(run.cookies.end(), done.cookies, done.cookies + done.num);
    }
    control_ = std::move(msg.control);
    return run;
}

long RdsSocket::receive(void *data, std::size_t size, kapi_addr *from, unsigned flags, unsigned *flags_out,
                        std::vector<std::uint32_t> *cookies)
{
    Run run = receive_run(data, size, flags, cookies ? 256 : 0);
    if (cookies)
        cookies->insert(cookies->end(), run.cookies.begin(), run.cookies.end());
    if (from)
        *from = run.from;
    if (flags_out)
        *flags_out = run.flags;
    return run.result;
}

unsigned RdsSocket::poll()
{
    kapi_poll poll{};
    return rds_socket_poll(core_, &poll);
}

unsigned RdsSocket::wait(unsigned wanted, std::uint64_t timeout_ns)
{
    return poller(wanted, sim::Poller::Kind::poll).wait(timeout_ns);
}

sim::Poller RdsSocket::poller(unsigned wanted, sim::Poller::Kind kind)
{
    return sim::Poller([core = core_](kapi_poll *poll) { return rds_socket_poll(core, poll); }, wanted, kind);
}

int RdsSocket::set_option(int name, const void *value, int size)
{
    kapi_optval optval{static_cast<unsigned char *>(const_cast<void *>(value)), static_cast<std::size_t>(size)};
    return rds_socket_setsockopt(core_, name, &optval, size);
}

int RdsSocket::get_option(int name, void *value, int *size)
{
    kapi_optval optval{static_cast<unsigned char *>(value), static_cast<std::size_t>(*size)};
    int length = *size, report = 0;
    int result = rds_socket_getsockopt(core_, name, &optval, &length, &report);
    if (report) // as the glue has it
        *size = length;
    return result;
}
