// SPDX-License-Identifier: GPL-2.0
// A simulated program with a KCM socket: one thread sends, one receives.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kcm_course.h"
#include "kcm_host.h"

class KcmProgram {
public:
    KcmProgram(KcmCourse &course, KcmHost &host);

    /** With a socket of a new multiplexor of net, or of the sibling's. Null when that fails. */
    static std::unique_ptr<KcmProgram> open(KcmCourse &course, KcmHost &host, kapi_net &net, KcmProgram *sibling);
    void start();
    /** From a task of its machine: both threads end, and the socket is closed. */
    void stop();
    /** Called after a crash of its machine. */
    void crashed() { socket.forget(); }
    /** True if it has sent all its messages, during the calm also those of the calm. */
    bool is_done() const { return sent_ >= course_.wanted() && flushed_ == sent_; }

    KcmSocket socket;

private:
    void send_loop();
    bool send_one();
    bool has_gone(std::uint64_t connection);
    bool leave_connection(std::uint64_t &wanted);
    bool send_several();
    using Lengths = std::vector<std::uint32_t>;
    bool send_part(const unsigned char *bytes, std::size_t size, bool ends, unsigned flags, std::uint64_t wanted);
    std::optional<std::size_t> send_call(const unsigned char *bytes, std::size_t size, const Lengths &lengths, bool ends,
                                         unsigned flags, std::uint64_t wanted);
    void count_sent(std::uint32_t sender);
    unsigned flags_of(bool ends) const;
    void receive_loop();
    bool receive_some();
    void received(const KcmSocket::Received &got);
    std::size_t room();

    KcmCourse &course_;
    const std::uint32_t sender_;
    std::uint32_t answerer_; // of messages with an address: they overtake those without
    const std::uint64_t place_;
    bool stopping_ = false;
    unsigned sent_ = 0, flushed_ = 0;
    std::uint64_t heard_ = 0; // the connection of the last message
    std::vector<unsigned char> memory_, message_; // of the receiver: message_ is a part of the next one
    sim::TaskRef sending_, receiving_;
};
