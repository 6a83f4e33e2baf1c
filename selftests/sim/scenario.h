// SPDX-License-Identifier: GPL-2.0
// One simulated run of RDS over TCP: machines, programs that send and receive, faults, and the promises checked.
#pragma once

#include <kapi/sim/sim.h>

#include <memory>
#include <string>
#include <vector>

#include "ledger.h"
#include "rds_host.h"

/** What a seed makes of a run. */
struct Profile {
    explicit Profile(sim::Random &random);

    unsigned nodes, sockets;
    unsigned messages;             // each program sends so many while there are faults
    std::size_t largest;           // bytes of a message
    kapi_u32 sndbuf, rcvbuf;       // of sockets
    bool slow_receivers, nonblocking;
    std::uint64_t fault_time_ns;   // faults happen for so long
    unsigned faults;               // so many
    bool crashes, reloads, buffers, cuts, resets;
    std::uint64_t reset_after;     // bytes of a connection
    unsigned lose_one_in;
    std::uint64_t fail_one_in;     // allocations
    bool zerocopy, bad_memory;     // programs send from their own pages; their memory faults and stalls
    bool reopens;                  // sockets close and open again under traffic
    bool famines;                  // for moments there is next to no memory, the first when everything begins
    bool hot;                      // everybody sends to one socket, whose program is slow
    std::string describe() const;
};

/** What a run was like. */
struct Outcome {
    std::uint64_t hash, messages, events, resets, connections, crashes, reloads, allocation_faults;
    double simulated_seconds;
};

class Scenario {
public:
    explicit Scenario(std::uint64_t seed);
    ~Scenario();
    Scenario(const Scenario &) = delete;
    Scenario &operator=(const Scenario &) = delete;

    /** Returns when all promises were kept; ends the process otherwise. */
    Outcome run();

private:
    struct Program;
    struct Machine;

    void set_up();
    void start_programs(Machine &machine);
    void open(Program &program);
    void start(Program &program);
    void stop_programs(Machine &machine);
    void stop(Program &program);
    void send_loop(Program &program);
    bool send_one(Program &program, const Program &target);
    Machine &choose_target();
    long try_to_send(Program &program, const kapi_addr &to);
    void make_trouble(Program &program, std::size_t size);
    void receive_loop(Program &program);
    void plan_faults();
    void one_fault();
    void fault_cut(Machine &a, Machine &b);
    void crash(Machine &machine);
    void boot(Machine &machine);
    void reload(Machine &machine);
    void reopen(Machine &machine);
    void reopen_soon(Machine &machine);
    void famine(Machine &machine);
    void change_buffers(Machine &machine);
    void heal();
    void calm_round(bool excused);
    void expect_no_congestion();
    void shut_down();
    std::size_t message_size();
    void explain();
    void in_task(Machine &machine, const char *name, std::function<void()> body);

    sim::World world_;
    Profile profile_;
    Ledger ledger_;
    std::vector<std::shared_ptr<std::vector<unsigned char>>> abandoned_; // pinned memory of programs that ended
    std::vector<std::unique_ptr<Machine>> machines_;
    unsigned calm_rounds_ = 0; // that programs may begin
    bool calm_ = false;        // no fault begins any more
    Outcome outcome_{};
};
