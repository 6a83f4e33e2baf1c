// SPDX-License-Identifier: GPL-2.0
// A program with one socket: one thread sends, one receives.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "rds_host.h"

struct Course;
struct Site;

class Program {
public:
    static constexpr kapi_u16 kFirstPort = 4000;

    Program(Course &course, Site &site, unsigned index);

    kapi_u16 port() const { return port_; }
    unsigned rounds_done() const { return rounds_done_; }
    std::uint32_t identity() const { return identity_; }

    /** Opens and binds the socket. From a task of the machine, like all except crashed(). */
    void open();
    void start();
    /** Ends its threads and closes the socket. */
    void stop();
    /** The machine has crashed, with the program. */
    void crashed();

private:
    void send_loop();
    bool send_to(const Site &to, std::size_t index);
    bool send_several(const Site &to, std::size_t index);
    void compose_several(std::uint32_t site, std::uint32_t port);
    void note_sent(std::size_t bytes, std::uint32_t site, std::uint32_t port);
    bool say_one_more_round(unsigned round);
    const Site &partner();
    bool knows(const Site &to) const;
    bool may_be(long error) const;
    long try_to_send(const kapi_addr &to);
    std::size_t message_size();
    void make_trouble(std::size_t size);
    void receive_loop();
    RdsSocket::Run receive();
    void set_clocks();
    void check_latency();
    void account(const unsigned char *bytes, std::size_t size);
    void account_run(const RdsSocket::Run &run);
    void take_back(const std::vector<std::uint32_t> &cookies);
    void abandon_memory();

    Course &course_;
    Site &site_;
    const kapi_u16 port_;
    std::uint32_t identity_ = 0; // in the ledger
    RdsSocket socket_;
    bool stopping_ = false;
    std::set<unsigned> sent_to_; // sites
    unsigned rounds_done_ = 0;
    sim::TaskRef sender_, receiver_;
    // Not on the threads' stacks, which a crash abandons.
    std::vector<unsigned char> incoming_;
    kapi_addr incoming_from_{};
    RdsSocket::Run run_;
    std::vector<std::uint32_t> lengths_; // of what is outgoing, when it is several
    std::shared_ptr<std::vector<unsigned char>> outgoing_;
    std::uint32_t next_cookie_ = 1;
    std::map<std::uint32_t, std::shared_ptr<std::vector<unsigned char>>> pinned_; // until their cookies come back
};
