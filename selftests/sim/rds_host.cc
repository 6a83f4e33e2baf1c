// SPDX-License-Identifier: GPL-2.0
#include "rds_host.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/rds/uapi.h"

// ---- modules

int RdsHost::start_rds()
{
    rds_ = &node_.load_module("rds");
    if (int err = rds_core_init())
        return err;
    for (const auto &host : node_.nets()) {
        nets_.push_back({host.get(), nullptr, nullptr, nullptr});
        if (int err = rds_net_create(host.get(), &nets_.back().rds)) {
            nets_.pop_back();
            unload_rds_nets();
            rds_core_exit();
            return err;
        }
    }
    return 0;
}

int RdsHost::start_tcp()
{
    tcp_ = &node_.load_module("rds_tcp");
    if (int err = rds_tcp_core_init(tcp_))
        return err;
    for (Net &net : nets_) {
        if (int err = rds_tcp_net_create(net.host, &net.tcp)) {
            net.tcp = nullptr;
            end_tcp();
            return err;
        }
    }
    if (int err = rds_tcp_core_publish()) {
        end_tcp();
        return err;
    }
    return 0;
}

int RdsHost::start_rdma()
{
    rdma_ = &node_.load_module("rds_rdma");
    if (int err = rds_rdma_core_init(rdma_))
        return err;
    for (Net &net : nets_) {
        if (int err = rds_rdma_net_create(net.host, &net.rdma)) {
            net.rdma = nullptr;
            end_rdma();
            return err;
        }
    }
    if (int err = rds_rdma_core_publish()) {
        end_rdma();
        return err;
    }
    return 0;
}

int RdsHost::load_rdma()
{
    int err = start_rdma();
    if (err)
        node_.unload_done(*std::exchange(rdma_, nullptr));
    return err;
}

void RdsHost::end_rdma()
{
    for (Net &net : nets_)
        if (net.rdma)
            rds_rdma_net_destroy(std::exchange(net.rdma, nullptr));
    rds_rdma_core_exit();
}

bool RdsHost::unload_rdma()
{
    if (!node_.start_unload(*rdma_))
        return false;
    rds_rdma_core_withdraw();
    end_rdma();
    node_.unload_done(*std::exchange(rdma_, nullptr));
    return true;
}

int RdsHost::load_rds()
{
    int err = start_rds();
    if (err)
        node_.unload_done(*std::exchange(rds_, nullptr));
    else
        kapi_report_register(rds_, rds_report_tables, rds_report_table_count);
    return err;
}

int RdsHost::load_tcp()
{
    int err = start_tcp();
    if (err) // like the kernel's loader, without checking references
        node_.unload_done(*std::exchange(tcp_, nullptr));
    return err;
}

int RdsHost::load()
{
    int err = load_rds();
    if (err)
        return err;
    err = load_tcp();
    if (err) {
        unload_rds_nets();
        rds_core_exit();
        node_.unload_done(*std::exchange(rds_, nullptr));
    }
    return err;
}

void RdsHost::end_tcp()
{
    for (Net &net : nets_)
        if (net.tcp)
            rds_tcp_net_destroy(std::exchange(net.tcp, nullptr));
    rds_tcp_core_exit();
}

void RdsHost::unload_rds_nets()
{
    kapi_report_unregister(rds_report_tables, rds_report_table_count);
    for (Net &net : nets_)
        rds_net_destroy(net.rds);
    nets_.clear();
}

bool RdsHost::unload_tcp()
{
    if (!node_.start_unload(*tcp_))
        return false;
    rds_tcp_core_withdraw();
    end_tcp();
    node_.unload_done(*std::exchange(tcp_, nullptr));
    return true;
}

bool RdsHost::unload()
{
    if (rdma_ && !unload_rdma())
        return false;
    if (tcp_ && !unload_tcp())
        return false;
    if (!node_.start_unload(*rds_))
        return false;
    unload_rds_nets();
    rds_core_exit();
    node_.unload_done(*std::exchange(rds_, nullptr));
    return true;
}

bool RdsHost::unload_soon()
{
    for (int i = 0; i < 100; i++) {
        if (unload())
            return true;
        node_.world().sleep(10 * sim::kMillisecond);
    }
    return false;
}

RdsHost::Net &RdsHost::net(const kapi_net &host)
{
    auto found = std::find_if(nets_.begin(), nets_.end(), [&](const Net &net) { return net.host == &host; });
    if (found == nets_.end())
        sim::broken("RDS is not in this namespace");
    return *found;
}

int RdsHost::add_net(kapi_net &host)
{
    Net made{&host, nullptr, nullptr, nullptr};
    if (int err = rds_net_create(&host, &made.rds))
        return err;
    if (int err = rds_tcp_net_create(&host, &made.tcp)) {
        rds_net_destroy(made.rds);
        return err;
    }
    if (int err = rdma_ ? rds_rdma_net_create(&host, &made.rdma) : 0) {
        rds_tcp_net_destroy(made.tcp);
        rds_net_destroy(made.rds);
        return err;
    }
    nets_.push_back(made);
    return 0;
}

/** A socket that is being released still holds its namespace. */
bool RdsHost::wait_for_sockets(sim::World &world, const std::vector<kapi_net *> &hosts)
{
    auto held = [&] { return std::any_of(hosts.begin(), hosts.end(), [](const kapi_net *h) { return h->sockets; }); };
    for (int i = 0; i < 100 && held(); i++)
        world.sleep(10 * sim::kMillisecond);
    return !held();
}

bool RdsHost::delete_nets(const std::vector<kapi_net *> &hosts)
{
    if (!wait_for_sockets(node_.world(), hosts))
        return false;
    for (kapi_net *host : hosts)
        host->going = true;
    for (kapi_net *host : hosts) {
        if (net(*host).rdma)
            rds_rdma_net_destroy(std::exchange(net(*host).rdma, nullptr));
        rds_tcp_net_destroy(std::exchange(net(*host).tcp, nullptr));
    }
    for (kapi_net *host : hosts) {
        rds_net_destroy(net(*host).rds);
        std::erase_if(nets_, [&](const Net &net) { return net.host == host; });
    }
    for (kapi_net *host : hosts)
        node_.remove_net(*host);
    return true;
}

void RdsHost::forget()
{
    rds_ = tcp_ = rdma_ = nullptr;
    nets_.clear();
}

// ---- names

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

// ---- sockets

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

long RdsSocket::send(const void *data, std::size_t size, const kapi_addr &to, unsigned flags)
{
    SocketName name(to);
    kapi_msg msg = message(data, size);
    rds_send call{&msg, size, name.bytes, name.size, nullptr, 0, flags};
    return static_cast<long>(rds_socket_sendmsg(core_, &call));
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
    return static_cast<long>(rds_socket_sendmsg(core_, &call));
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
    return static_cast<long>(rds_socket_sendmsg(core_, &call));
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
