// SPDX-License-Identifier: GPL-2.0
// A machine of a run of KCM: its programs, their connections, and its faults.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kcm_plain.h"
#include "kcm_program.h"

class KcmSide {
public:
    enum class Kind { calls, listens, plain }; // plain: it listens, and its programs do not use KCM

    KcmSide(KcmCourse &course, sim::Node &node, Kind kind, const char *address);

    // From a task of the machine.
    /** Starts everything up to the programs' traffic. */
    void boot();
    /** All connections are closed, then all sockets. polite: each connection is unattached first. */
    void stop(bool polite);
    /** Afterwards: false when the module is held too long. */
    bool unload(std::uint64_t limit_ns) { return !host_.is_loaded() || host_.unload_soon(limit_ns); }

    // From outside of its tasks.
    /** The machine crashes, or the module is removed, or the namespace ends; later it comes again. */
    void fall();
    bool is_steady() const { return steady_; }
    bool is_done() const;
    bool has_connections() const;
    bool takes_away() const { return taken_away_ != 0; }

    sim::Node &node;

private:
    void spawn(const char *name, std::function<void()> body);
    bool ends() const { return course_.over || going_; }
    void open_programs();
    void churn_loop();
    void connect_loop();
    void accept_loop();
    void serve(int fd);
    void take_away_for_a_while(int fd);
    void serve_until_dead(int fd);
    void attach(int fd);
    bool unattach(int fd);
    KcmSocket &first() { return programs_[0]->socket; }
    void wait_for_tasks();
    void crash();
    void reload();
    void end_net();

    KcmCourse &course_;
    KcmHost host_;
    KcmPlain plain_;
    const Kind kind_;
    const kapi_addr address_;
    kapi_net *net_;
    kapi_listener *listener_ = nullptr;
    int filter_ = -1;
    bool steady_ = false; // up, with its programs running
    bool going_ = false;  // everything is closed
    bool polite_ = true;
    unsigned taken_away_ = 0; // connections that are unattached for a while
    std::vector<std::unique_ptr<KcmProgram>> programs_; // the first one keeps its socket
    std::vector<sim::TaskRef> tasks_;                   // connections, and the tasks that make them
};
