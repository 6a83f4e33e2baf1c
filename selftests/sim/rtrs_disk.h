// SPDX-License-Identifier: GPL-2.0
// The disk that a simulated RTRS server exports. Its requests take a while and overtake each other, and it watches the memory
// that it was given with each. What it has stored outlives its machine.
#pragma once

#include <map>
#include <set>
#include <string>

#include "rtrs_course.h"

#include "drivers/infiniband/ulp/rtrs/server/glue/rtrs_srv_core.h"

class RtrsDisk {
public:
    RtrsDisk(RtrsCourse &course, sim::Node &node) : course_(course), node_(node) {}

    static const rtrs_srv_core_ops ops; // its user is a disk
    /** Of a request for a block: "r" or "w" and its number. */
    static std::string message(bool read, std::uint64_t block) { return (read ? "r" : "w") + std::to_string(block); }
    /** The machine has crashed, and forgot its requests. */
    void crashed();
    bool is_idle() const { return bios_.empty(); }
    unsigned sessions() const { return sessions_; }

private:
    struct Bio {
        rtrs_srv_op *op;
        unsigned char *data;
        std::size_t size;
        bool read;
        std::uint64_t block;
    };
    static int on_request(void *user, void *priv, rtrs_srv_op *op, void *data, kapi_size size, const void *message,
                          kapi_size message_size);
    static int on_link(void *user, rtrs_srv_sess *session, rtrs_srv_core_event event, void *priv);
    void run(const Bio &bio);
    void read(const Bio &bio);
    void write(const Bio &bio);
    std::uint64_t delay();

    RtrsCourse &course_;
    sim::Node &node_;
    std::map<std::uint64_t, std::string> blocks_;
    std::set<const void *> bios_; // by their data
    unsigned sessions_ = 0;
};
