// SPDX-License-Identifier: GPL-2.0
// A simulated program with a KCM socket: one thread sends, one receives.
#pragma once

#include <memory>
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
    /** Its machine has crashed. */
    void crashed() { socket.forget(); }
    /** It has sent what it wanted to, and during the calm what it wants then. */
    bool is_done() const { return sent_ >= course_.wanted() && flushed_ == sent_; }

    KcmSocket socket;

private:
    void send_loop();
    bool send_one();
    bool send_part(const unsigned char *bytes, std::size_t size, bool ends, unsigned flags, std::uint64_t wanted);
    unsigned flags_of(bool ends) const;
    void receive_loop();
    bool receive_one();
    std::size_t room();

    KcmCourse &course_;
    const std::uint32_t sender_;
    const std::uint64_t place_;
    bool stopping_ = false;
    unsigned sent_ = 0, flushed_ = 0;
    std::uint64_t heard_ = 0; // the connection that the last message came from
    std::vector<unsigned char> memory_, message_; // of the receiver: message_ is what it has of the next one
    sim::TaskRef sending_, receiving_;
};
