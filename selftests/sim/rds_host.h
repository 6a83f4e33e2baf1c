// SPDX-License-Identifier: GPL-2.0
// A simulated machine with RDS: the same calls of core's C functions as the kernel's glue, in the same order.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <string>
#include <vector>

#include "net/rds/glue/rds_core.h"
#include "net/rds/rdma/glue/rds_rdma_core.h"
#include "net/rds/tcp/glue/rds_tcp_core.h"

/** The modules of one machine, and its namespaces. All calls come from a task of the node. */
class RdsHost {
public:
    explicit RdsHost(sim::Node &node) : node_(node) {}

    sim::Node &node() { return node_; }
    /** Loads rds and rds_tcp. 0, or the error of a failed allocation; then everything is undone. */
    int load();
    /** One of them; rds_tcp needs rds. */
    int load_rds();
    int load_tcp();
    bool unload_tcp();
    /** RDS over RDMA, which needs rds, too; load() does not load it. */
    int load_rdma();
    bool unload_rdma();
    /** Unloads all, or returns false when a socket still holds them. */
    bool unload();
    /** After the last socket was closed: a thread that just looked it up may hold it a little longer. */
    bool unload_soon();
    bool is_loaded() const { return rds_ != nullptr; }
    /** The machine crashed: nothing of this exists any more. */
    void forget();

    /** RDS's view of one of the node's namespaces. */
    struct Net {
        kapi_net *host;
        rds_net *rds;
        rds_tcp_net *tcp;
        rds_rdma_net *rdma = nullptr;
    };
    Net &net(const kapi_net &host);
    const std::vector<Net> &nets() const { return nets_; }
    Net &net() { return net(node_.initial_net()); }
    /** RDS in a new namespace. 0, or an error; then everything is undone. */
    int add_net(kapi_net &host);
    /**
     * Namespaces without programs end together, as in the kernel: first each loses RDS over TCP, then RDS,
     * then the rest. False when a socket holds one for long; then all remain.
     */
    bool delete_nets(const std::vector<kapi_net *> &hosts);
    kapi_module &rds_module() { return *rds_; }

private:
    static bool wait_for_sockets(sim::World &world, const std::vector<kapi_net *> &hosts);
    int start_rds();
    int start_tcp();
    void end_tcp();
    int start_rdma();
    void end_rdma();
    void unload_rds_nets();

    sim::Node &node_;
    kapi_module *rds_ = nullptr, *tcp_ = nullptr, *rdma_ = nullptr;
    std::vector<Net> nets_;
};

/** A program's RDS socket. */
class RdsSocket {
public:
    explicit RdsSocket(RdsHost &host) : host_(host) {}
    ~RdsSocket() { close(); }
    RdsSocket(const RdsSocket &) = delete;
    RdsSocket &operator=(const RdsSocket &) = delete;

    int open(kapi_net &net);
    int open() { return open(host_.node().initial_net()); }
    int bind(const kapi_addr &addr);
    int connect(const kapi_addr &addr);
    long send(const void *data, std::size_t size, const kapi_addr &to, unsigned flags = 0);
    /** With MSG_ZEROCOPY: data must not change before the cookie comes back. */
    long send_pinned(const void *data, std::size_t size, const kapi_addr &to, std::uint32_t cookie, unsigned flags = 0);
    /** from may be null. flags_out gets MSG_*, cookies those of finished zerocopy sends. */
    long receive(void *data, std::size_t size, kapi_addr *from, unsigned flags = 0, unsigned *flags_out = nullptr,
                 std::vector<std::uint32_t> *cookies = nullptr);
    /** Many messages in a call. */
    long send_each(const void *data, std::size_t size, const kapi_addr &to, const std::vector<std::uint32_t> &lengths,
                   unsigned flags = 0);
    /** What a call returned with RDS_RECV_LENGTHS. */
    struct Run {
        long result = 0;
        unsigned flags = 0;
        kapi_addr from{};
        std::vector<std::uint32_t> lengths; // empty: none were reported
        std::vector<std::uint32_t> cookies; // of finished zerocopy sends
    };
    Run receive_run(void *data, std::size_t size, unsigned flags = 0, std::size_t control_room = 4096);
    /** The program's memory faults or stalls at a byte, in the next call. */
    sim::Trouble trouble;
    /** Further results of the last receive(). */
    const std::vector<kapi_msg::Control> &control() const { return control_; }
    unsigned poll();
    /** Sleeps in poll() until one of these events; 0: time-out. */
    unsigned wait(unsigned wanted, std::uint64_t timeout_ns = KAPI_FOREVER);
    sim::Poller poller(unsigned wanted, sim::Poller::Kind kind);
    int set_option(int name, const void *value, int size);
    int get_option(int name, void *value, int *size);
    void close();
    /** The machine crashed: the socket disappears without a close. */
    void forget() { sk_ = nullptr; }
    bool is_open() const { return sk_ != nullptr; }
    kapi_sk &sk() { return *sk_; }
    rds_socket *core() { return core_; }

private:
    kapi_msg message(const void *data, std::size_t size);

    RdsHost &host_;
    kapi_sk *sk_ = nullptr;
    rds_socket *core_ = nullptr;
    std::vector<kapi_msg::Control> control_;
};

/** A socket address in the form for programs. */
struct SocketName {
    explicit SocketName(const kapi_addr &addr);
    unsigned char bytes[28];
    int size;
};
kapi_addr address_of(const unsigned char *name, int size);
