// SPDX-License-Identifier: GPL-2.0
#include "kcm_host.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

// ---- the module

int KcmHost::load()
{
    module_ = &node_.load_module("kcm");
    int err = kcm_core_init();
    if (err) {
        node_.unload_done(*std::exchange(module_, nullptr));
        return err;
    }
    for (const auto &host : node_.nets()) {
        kcm_net *net;
        err = kcm_net_create(host.get(), &net);
        if (err)
            break;
        nets_.push_back({host.get(), net});
    }
    if (err) {
        unload_nets();
        kcm_core_exit();
        node_.unload_done(*std::exchange(module_, nullptr));
    }
    return err;
}

void KcmHost::unload_nets()
{
    for (Net &net : nets_)
        kcm_net_destroy(net.kcm);
    nets_.clear();
}

bool KcmHost::unload()
{
    if (node_.live_sockets) // each pins the module until it is freed
        return false;
    if (!node_.start_unload(*module_))
        return false;
    unload_nets();
    kcm_core_exit();
    node_.unload_done(*std::exchange(module_, nullptr));
    return true;
}

bool KcmHost::unload_soon(std::uint64_t limit_ns)
{
    sim::World &world = node_.world();
    std::uint64_t end_ns = world.now_ns() + limit_ns;
    while (!unload()) {
        if (world.now_ns() >= end_ns)
            return false;
        world.sleep(10 * sim::kMillisecond);
    }
    return true;
}

kcm_net *KcmHost::net(const kapi_net &host)
{
    auto found = std::find_if(nets_.begin(), nets_.end(), [&](const Net &net) { return net.host == &host; });
    if (found == nets_.end())
        sim::broken("KCM is not in this namespace");
    return found->kcm;
}

void KcmHost::forget()
{
    module_ = nullptr;
    nets_.clear();
}

int KcmHost::add_net(kapi_net &host)
{
    kcm_net *made;
    if (int err = kcm_net_create(&host, &made))
        return err;
    nets_.push_back({&host, made});
    return 0;
}

bool KcmHost::delete_net(kapi_net &host, std::uint64_t limit_ns)
{
    sim::World &world = node_.world();
    for (std::uint64_t end_ns = world.now_ns() + limit_ns; host.sockets; world.sleep(10 * sim::kMillisecond))
        if (world.now_ns() >= end_ns)
            return false;
    kcm_net_destroy(net(host));
    std::erase_if(nets_, [&](const Net &net) { return net.host == &host; });
    node_.remove_net(host);
    return true;
}

// ---- sockets

int KcmSocket::make(kapi_net &net, int type, kcm_socket *sibling)
{
    kapi_sk *sk = sim::make_sk(net);
    kcm_socket *core;
    if (int err = kcm_socket_create(host_.net(net), sk, type, sibling, &core)) {
        kapi_sk_put(sk);
        return err;
    }
    sk->core = core_ = core;
    sk->destructor = [](void *object) { kcm_socket_destroy(static_cast<kcm_socket *>(object)); };
    sk_ = sk;
    return 0;
}

void KcmSocket::close()
{
    if (!sk_)
        return;
    kcm_socket_release(core_);
    kapi_sk_put(std::exchange(sk_, nullptr));
}

int KcmSocket::attach(int fd, int bpf_fd)
{
    kcm_abi_attach argument{fd, bpf_fd};
    kapi_optval value{reinterpret_cast<unsigned char *>(&argument), sizeof(argument)};
    return kcm_socket_ioctl(core_, KCM_ABI_ATTACH, &value, 0);
}

int KcmSocket::unattach(int fd, bool nonblocking)
{
    kcm_abi_unattach argument{fd};
    kapi_optval value{reinterpret_cast<unsigned char *>(&argument), sizeof(argument)};
    return kcm_socket_ioctl(core_, KCM_ABI_UNATTACH, &value, nonblocking);
}

long KcmSocket::send(const void *data, std::size_t size, unsigned flags, std::uint64_t connection)
{
    return send_each(data, size, {}, flags, connection);
}

static void append_control(std::vector<unsigned char> &control, int type, const void *data, std::size_t size)
{
    kcm_abi_cmsghdr head{sizeof(head) + size, KCM_ABI_SOL_KCM, type};
    auto append = [&](const void *from, std::size_t bytes) {
        control.insert(control.end(), static_cast<const unsigned char *>(from), static_cast<const unsigned char *>(from) + bytes);
    };
    append(&head, sizeof(head));
    append(data, size);
    control.resize((control.size() + 7) & ~std::size_t{7});
}

long KcmSocket::send_each(const void *data, std::size_t size, const std::vector<std::uint32_t> &lengths, unsigned flags,
                          std::uint64_t connection)
{
    std::vector<unsigned char> control;
    kcm_abi_connection wanted{connection};
    if (connection)
        append_control(control, KCM_ABI_CONNECTION, &wanted, sizeof(wanted));
    if (!lengths.empty())
        append_control(control, KCM_ABI_LENGTHS, lengths.data(), lengths.size() * sizeof(lengths[0]));
    kapi_msg msg = sim::make_msg(data, size, std::exchange(trouble, {}));
    kcm_send call{&msg, size, control.data(), control.size(), flags, spliced};
    return static_cast<long>(kcm_socket_sendmsg(core_, &call));
}

KcmSocket::Received KcmSocket::receive_each(void *data, std::size_t size, unsigned flags, std::size_t control_room)
{
    kapi_msg msg = sim::make_msg(data, size, std::exchange(trouble, {}));
    msg.control_room = control_room;
    kcm_receive call{&msg, size, flags, 0, spliced};
    Received got;
    got.result = static_cast<long>(kcm_socket_recvmsg(core_, &call));
    got.flags = call.out_flags;
    got.control_truncated = msg.control_truncated;
    std::uint64_t connection = 0;
    for (const auto &control : msg.control) {
        if (control.type == KCM_ABI_CONNECTION) {
            std::memcpy(&connection, control.data.data(), std::min(sizeof(connection), control.data.size()));
            continue;
        }
        std::vector<std::uint32_t> lengths(control.data.size() / sizeof(std::uint32_t));
        if (!lengths.empty())
            std::memcpy(lengths.data(), control.data.data(), lengths.size() * sizeof(lengths[0]));
        got.runs.push_back({connection, std::move(lengths)});
    }
    if (got.runs.empty() && got.result >= 0)
        got.runs.push_back({connection, {static_cast<std::uint32_t>(got.result)}});
    return got;
}

long KcmSocket::receive(void *data, std::size_t size, unsigned flags, unsigned *flags_out, std::uint64_t *connection)
{
    Received got = receive_each(data, size, flags, connection ? 64 : 0);
    if (flags_out)
        *flags_out = got.flags;
    if (connection)
        *connection = got.runs.empty() ? 0 : got.runs[0].connection;
    return got.result;
}

unsigned KcmSocket::poll()
{
    kapi_poll poll{};
    return kcm_socket_poll(core_, &poll);
}

sim::Poller KcmSocket::poller(unsigned wanted, sim::Poller::Kind kind)
{
    return sim::Poller([core = core_](kapi_poll *poll) { return kcm_socket_poll(core, poll); }, wanted, kind);
}

int KcmSocket::set_option(int name, int value)
{
    kapi_optval optval{reinterpret_cast<unsigned char *>(&value), sizeof(value)};
    return kcm_socket_setsockopt(core_, name, &optval, sizeof(value));
}

int KcmSocket::get_option(int name)
{
    int value = 0, length = sizeof(value);
    kapi_optval optval{reinterpret_cast<unsigned char *>(&value), sizeof(value)};
    int err = kcm_socket_getsockopt(core_, name, &optval, &length);
    return err ? err : value;
}

std::vector<kcm_abi_connection_stats> KcmSocket::connections()
{
    std::vector<kcm_abi_connection_stats> rows(64);
    for (;;) {
        int length = static_cast<int>(rows.size() * sizeof(rows[0]));
        kapi_optval optval{reinterpret_cast<unsigned char *>(rows.data()), rows.size() * sizeof(rows[0])};
        int err = kcm_socket_getsockopt(core_, KCM_ABI_STATS, &optval, &length);
        rows.resize(err && err != -KAPI_ENOSPC ? 0 : static_cast<std::size_t>(length) / sizeof(rows[0]));
        if (err != -KAPI_ENOSPC)
            return rows;
    }
}

std::int64_t KcmSocket::id_of(int fd)
{
    kcm_abi_attached argument{fd, 0, 0};
    int length = sizeof(argument);
    kapi_optval value{reinterpret_cast<unsigned char *>(&argument), sizeof(argument)};
    int err = kcm_socket_getsockopt(core_, KCM_ABI_ATTACHED, &value, &length);
    return err ? err : static_cast<std::int64_t>(argument.id);
}

void KcmSocket::set_sndbuf(kapi_u32 bytes)
{
    sk_->sndbuf = bytes;
    kcm_socket_send_limit_changed(core_);
}
