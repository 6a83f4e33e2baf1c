// SPDX-License-Identifier: GPL-2.0
// The machine of a run of RTRS that has a session, its programs, and its faults.
#pragma once

#include <memory>
#include <vector>

#include "rtrs_devices.h"

#include "drivers/infiniband/ulp/rtrs/client/glue/rtrs_clt_core.h"

/** What a program has written to a block, as far as it knows. */
struct RtrsBlock {
    std::uint64_t number = 0; // 0: not written yet
    unsigned written = 0;     // times
    std::size_t size = 0;     // of the last time
    bool is_being_written = false;
};

class RtrsClientSide {
public:
    RtrsClientSide(RtrsCourse &course, sim::Node &node);

    // From a task of the machine.
    void boot();
    void stop();
    /** What an administrator does with a path, which is there afterwards. */
    void change(unsigned path);
    bool has_all_paths();

    // From outside of its tasks.
    void crash();
    void reload();
    bool is_steady() const { return steady_ && !changing_ && devices.are_there(); }
    /** Programs have made their requests. */
    bool is_done() const;
    /** All paths are there to stay: programs make some more requests, none of which may fail. */
    void expect_success() { must_succeed_ = true; }

    sim::Node &node;
    RtrsDevices devices;

private:
    struct Request; // from its start to its end
    struct Program {
        unsigned rounds = 0;
        bool running = false;
        std::vector<RtrsBlock> blocks;
    };
    void open();
    unsigned wanted() const; // requests of a program
    void run(Program &program);
    void round(Program &program);
    int write(RtrsBlock &block);
    int read(RtrsBlock &block);
    int call(bool read, std::uint64_t block, std::string &data);
    int call(bool read, std::uint64_t block, std::string &&data) { return call(read, block, data); }
    void check(int error);
    void add(unsigned path);
    int put(const std::string &file, const std::string &text);
    static std::string path_name(unsigned path);

    RtrsCourse &course_;
    kapi_module *module_ = nullptr;
    rtrs_clt_session *session_ = nullptr;
    std::vector<std::unique_ptr<Program>> programs_;
    std::vector<std::shared_ptr<Request>> requests_; // also those of a machine that crashed
    unsigned changing_ = 0; // paths
    bool steady_ = false;   // up, with its programs running
    bool going_ = false, must_succeed_ = false;
};
