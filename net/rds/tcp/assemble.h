// SPDX-License-Identifier: GPL-2.0
// From a byte stream to RDS messages: 48 bytes of header, then the payload, whose length is in the header.
#pragma once

#include <hawser/atomic.h>

#include "../transport.h"

namespace rds_tcp {

using namespace hw;

class Assembler : Pinned {
public:
    Assembler(rds_conn* conn, unsigned path) : conn_(conn), path_(path) {}
    ~Assembler() { reset(); }

    enum class Verdict {
        more,    // everything on offer was used
        stalled, // a socket is full: read no further until the path is resumed
        starved, // no memory: try again later
        garbage, // this is no RDS peer
        enough,  // others get the processor first: read on in a work
    };
    struct Outcome { usize used; Verdict verdict; };
    // TCP may offer all that it has in one call, also in softirq: as much as a namespace's administrator lets it keep, in
    // messages of a header. With each of so many parts it looks at whether its turn is over: one may wake many programs.
    static constexpr unsigned parts_a_look = 4;
    // Uses the offered bytes. Under the stream's lock.
    Outcome feed(kapi_rx* rx, usize length);
    // Forgets a half-received message: its stream has ended and the peer sends it again.
    void reset();

    u32 header_left() const { return RDS_HEADER_SIZE - header_have_; }
    // Of the message that is being received. Any context.
    u32 data_left() const { return data_left_.load_relaxed(); }

private:
    rds_conn* const conn_;
    const unsigned path_;
    u8 header_[RDS_HEADER_SIZE] = {};
    u32 header_have_ = 0;
    rds_inc* inc_ = nullptr; // owned
    Atomic<u32> data_left_{0};
};

} // namespace rds_tcp
