// SPDX-License-Identifier: GPL-2.0
// A simulated machine with KCM: the same calls of core's C functions as the kernel's glue, in the same order.
#pragma once

#include <kapi/sim/sim.h>

#include <cstdint>
#include <vector>

#include "net/kcm/glue/kcm_core.h"
#include "net/kcm/uapi.h"

/** The module of one machine, and its namespaces. All calls come from a task of the node. */
class KcmHost {
public:
    explicit KcmHost(sim::Node &node) : node_(node) {}

    sim::Node &node() { return node_; }
    /** 0, or the error of a failed allocation; then everything is undone. */
    int load();
    /** False when a socket still holds the module. */
    bool unload();
    /** After the close of the last socket, which may still send queued messages. */
    bool unload_soon(std::uint64_t limit_ns = sim::kSecond);
    bool is_loaded() const { return module_ != nullptr; }
    /** The machine crashed: nothing of this exists any more. */
    void forget();

    /** KCM's view of one of the node's namespaces. */
    kcm_net *net(const kapi_net &host);
    /** KCM in a new namespace: 0, or an error. */
    int add_net(kapi_net &host);
    /** Ends a namespace without programs. False when a socket holds it too long; then it remains. */
    bool delete_net(kapi_net &host, std::uint64_t limit_ns);

private:
    void unload_nets();

    struct Net {
        kapi_net *host;
        kcm_net *kcm;
    };
    sim::Node &node_;
    kapi_module *module_ = nullptr;
    std::vector<Net> nets_;
};

/** A program's KCM socket. */
class KcmSocket {
public:
    explicit KcmSocket(KcmHost &host) : host_(host) {}
    ~KcmSocket() { close(); }
    KcmSocket(const KcmSocket &) = delete;
    KcmSocket &operator=(const KcmSocket &) = delete;

    /** Of a new multiplexor: of the initial namespace, or of this one. */
    int open(int type = KCM_ABI_SOCK_DGRAM) { return open_in(host_.node().initial_net(), type); }
    int open_in(kapi_net &net, int type) { return make(net, type, nullptr); }
    int open_as_clone(KcmSocket &sibling) { return make(*sibling.sk_->net, 0, sibling.core_); }
    int attach(int fd, int bpf_fd);
    int unattach(int fd, bool nonblocking = false);
    /** connection: the required one for the message; 0: any. */
    long send(const void *data, std::size_t size, unsigned flags = 0, std::uint64_t connection = 0);
    /** flags_out gets MSG_*, connection the message's connection (0: not given). */
    long receive(void *data, std::size_t size, unsigned flags = 0, unsigned *flags_out = nullptr,
                 std::uint64_t *connection = nullptr);
    /** Several messages in one call: KCM_LENGTHS. Bytes of those that were taken. */
    long send_each(const void *data, std::size_t size, const std::vector<std::uint32_t> &lengths, unsigned flags = 0,
                   std::uint64_t connection = 0);
    /** What a call returned, with its control messages. Without lengths there is one run with what was returned. */
    struct Received {
        struct Run {
            std::uint64_t connection = 0;
            std::vector<std::uint32_t> lengths;
        };
        long result = 0;
        unsigned flags = 0;
        bool control_truncated = false;
        std::vector<Run> runs;
    };
    Received receive_each(void *data, std::size_t size, unsigned flags, std::size_t control_room);
    /** Both as by splice(). */
    bool spliced = false;
    /** Of the next call's memory. */
    sim::Trouble trouble;
    unsigned poll();
    /** A program that polls for these events. */
    sim::Poller poller(unsigned wanted, sim::Poller::Kind kind);
    int set_option(int name, int value);
    /** Returns the value, or a negative errno. */
    int get_option(int name);
    std::vector<kcm_abi_connection_stats> connections();
    /** KCM_ATTACHED: the connection of a TCP socket, or a negative errno. */
    std::int64_t id_of(int fd);
    void set_sndbuf(kapi_u32 bytes);
    void close();
    /** The machine crashed, and the socket with it. */
    void forget() { sk_ = nullptr; }
    bool is_open() const { return sk_ != nullptr; }
    kapi_sk &sk() { return *sk_; }
    kcm_socket *core() { return core_; }

private:
    int make(kapi_net &net, int type, kcm_socket *sibling);

    KcmHost &host_;
    kapi_sk *sk_ = nullptr;
    kcm_socket *core_ = nullptr;
};
