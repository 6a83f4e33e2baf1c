// SPDX-License-Identifier: GPL-2.0
// Which messages were sent through KCM, and whether they came whole, once, and in the order of their connection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

class KcmLedger {
public:
    /** A sender's next message, framed: its length in four bytes, a label, a pattern. size counts all, at least smallest. */
    std::vector<unsigned char> compose(std::uint32_t sender, std::size_t size);
    static constexpr std::size_t smallest = 20;

    /** From now on, whoever is not excused must receive what is sent. */
    void begin_calm() { calm_ = true; }
    /** The last message that was composed is on its way; from here on it may arrive. */
    void sent(std::uint32_t sender);

    /**
     * These bytes arrived as one message. place names who reads and from which connection; with ordered, the messages of
     * one sender come to one place in their order. Fails the run when a promise is broken.
     */
    void received(std::uint64_t place, bool ordered, const unsigned char *bytes, std::size_t size)
    {
        received_cut(place, ordered, bytes, size, size);
    }
    /** The same of the first shown bytes, at least smallest; its length is said to be size. */
    void received_cut(std::uint64_t place, bool ordered, const unsigned char *bytes, std::size_t shown, std::size_t size);
    /** Whether these bytes, at least smallest, begin a message of this size that somebody composed. */
    bool is_message(const unsigned char *bytes, std::size_t size) const;

    /** That message of the sender (the first is 0), or all that it has sent. */
    bool has_arrived(std::uint32_t sender, std::uint64_t number) const;
    bool has_arrived(std::uint32_t sender) const;
    /** Whether anything of the sender came to that place. */
    bool has_come(std::uint64_t place, std::uint32_t sender) const { return next_.contains({place, sender}); }
    std::uint64_t sent_by(std::uint32_t sender) const;
    /** Fails the run when something arrived although its sender was told that it was not sent. */
    void expect_sent() const;

    /** All that was sent (excused: since the calm began) has arrived. */
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
    /** The first that is missing, from one on. */
    static std::uint64_t next_lost(const Flow &flow, std::uint64_t from);
    std::uint64_t lost(const Flow &flow, bool excused) const;

    bool calm_ = false;
    std::map<std::uint32_t, Flow> flows_;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> next_; // by place and sender
    std::uint64_t total_ = 0;
};
