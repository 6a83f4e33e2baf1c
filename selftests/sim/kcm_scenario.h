// SPDX-License-Identifier: GPL-2.0
// One simulated run of KCM: two machines whose programs exchange framed messages over several TCP connections, through KCM
// on both sides or on one, while connections break, memory fails, and sockets come and go.
#pragma once

#include <deque>
#include <memory>

#include "kcm_host.h"
#include "kcm_ledger.h"
#include "profile.h"

struct KcmProfile {
    explicit KcmProfile(sim::Random &random);
    bool plain;                      // the second machine's programs use TCP without KCM
    bool churn;                      // sockets are made and closed, disabled, connections unattached and attached
    bool bad_memory;                 // of programs: faults and stalls
    unsigned connections, sockets, messages;
    std::size_t largest;
    kapi_u32 sndbuf, rcvbuf, tcp_sndbuf, tcp_rcvbuf;
    std::uint64_t reset_after;       // bytes of a connection; 0: none breaks
    std::uint64_t fail_one_in;       // allocations
    int steering;
    std::string describe() const;
};

class KcmScenario {
public:
    explicit KcmScenario(std::uint64_t seed);
    ~KcmScenario();
    KcmScenario(const KcmScenario &) = delete;
    KcmScenario &operator=(const KcmScenario &) = delete;

    /** Returns when all promises were kept; ends the process otherwise. */
    Outcome run();

private:
    struct Side;
    struct Program;
    void in_task(sim::Node &node, const char *name, std::function<void()> body);
    sim::TaskRef spawn(Side &side, const char *name, std::function<void()> body);
    void open(Side &side);
    std::unique_ptr<Program> new_program(Side &side, KcmSocket *sibling);
    void start(Side &side, Program &program);
    void stop(Program &program);
    void send_loop(Side &side, Program &program);
    void send_one(Side &side, Program &program);
    bool send_part(Program &program, const unsigned char *bytes, std::size_t size, unsigned flags);
    void receive_loop(Program &program);
    void connect_loop(Side &side);
    void accept_loop(Side &side);
    void serve(Side &side, int fd);
    void serve_plain(int fd);
    void read_frames(int fd, std::uint64_t place);
    void write_frames(int fd, std::uint32_t sender);
    void churn_loop(Side &side);
    void attach(Side &side, int fd);
    bool unattach(Side &side, int fd);
    void close_side(Side &side);
    std::size_t size();
    /** Connections end without anybody being at fault. */
    bool may_break() const { return over_ || profile_.reset_after || profile_.fail_one_in; }
    [[noreturn]] void fail(const std::string &why);

    sim::World world_;
    const KcmProfile profile_;
    KcmLedger ledger_;
    std::unique_ptr<Side> a_, b_;
    kapi_listener *listener_ = nullptr;
    std::uint32_t next_sender_ = 1;
    std::uint64_t next_place_ = 1;
    bool calm_ = false, over_ = false;
    unsigned senders_ = 0, done_ = 0, calm_done_ = 0;
};
