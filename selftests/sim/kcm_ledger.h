// SPDX-License-Identifier: GPL-2.0
// Records messages sent through KCM, and checks that they arrive whole, once, and in the order of their connection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

class KcmLedger {
public:
    /**
     * A sender's next message, framed: its length in four bytes, a label, a pattern. size counts all, at least smallest.
     * behind: so many composed ones are to be sent before it.
     */
    std::vector<unsigned char> compose(std::uint32_t sender, std::size_t size, std::uint64_t behind = 0);
    static constexpr std::size_t smallest = 20;

    /** From now on, receivers that are not excused must get all messages. */
    void begin_calm() { calm_ = true; }
    /** The first composed message that was not sent is being sent and may arrive. */
    void sent(std::uint32_t sender);

    /**
     * These bytes arrived as one message. place identifies the reader and the connection; with ordered, the messages of
     * one sender arrive at one place in order. Fails the run when a promise is broken.
     */
    void received(std::uint64_t place, bool ordered, const unsigned char *bytes, std::size_t size)
    {
        received_cut(place, ordered, bytes, size, size);
    }
    /** The same for the first shown bytes, at least smallest, of a message of size bytes. */
    void received_cut(std::uint64_t place, bool ordered, const unsigned char *bytes, std::size_t shown, std::size_t size);
    /** True if these bytes, at least smallest, begin a composed message of this size. */
    bool is_message(const unsigned char *bytes, std::size_t size) const;

    /** That message of the sender (the first is 0), or all its messages. */
    bool has_arrived(std::uint32_t sender, std::uint64_t number) const;
    bool has_arrived(std::uint32_t sender) const;
    /** True if a message of the sender arrived at that place. */
    bool has_come(std::uint64_t place, std::uint32_t sender) const { return next_.contains({place, sender}); }
    std::uint64_t sent_by(std::uint32_t sender) const;
    /** Fails the run when a message arrived whose send had failed. */
    void expect_sent() const;

    /** True if all sent messages (excused: since the calm began) have arrived. */
    bool all_received(bool excused) const;
    std::string missing(bool excused) const;
    std::uint64_t total() const { return total_; }

private:
    struct Flow {
        std::uint64_t composed = 0, sent = 0, calm_from = ~std::uint64_t{0};
        std::vector<bool> seen;
        /** The first message that has to arrive. */
        std::uint64_t asked(bool excused) const { return excused ? std::min(calm_from, sent) : 0; }
    };
    /** The first missing one, from a number on. */
    static std::uint64_t next_lost(const Flow &flow, std::uint64_t from);
    std::uint64_t lost(const Flow &flow, bool excused) const;

    bool calm_ = false;
    std::map<std::uint32_t, Flow> flows_;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> next_; // by place and sender
    std::uint64_t total_ = 0;
};
