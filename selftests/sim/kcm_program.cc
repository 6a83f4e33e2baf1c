// SPDX-License-Identifier: GPL-2.0
#include "kcm_program.h"

#include <kapi/errno.h>

#include <algorithm>
#include <utility>

using namespace sim;

KcmProgram::KcmProgram(KcmCourse &course, KcmHost &host)
    : socket(host), course_(course), sender_(course.next_sender++),
      answerer_(course.next_sender++), place_(course.next_place++),
      memory_(KcmProfile::kLargest + 1)
{
}

std::unique_ptr<KcmProgram> KcmProgram::open(KcmCourse &course, KcmHost &host, kapi_net &net, KcmProgram *sibling)
{
    const KcmProfile &profile = course.profile;
    auto program = std::make_unique<KcmProgram>(course, host);
    int type = profile.seqpacket ? KCM_ABI_SOCK_SEQPACKET : KCM_ABI_SOCK_DGRAM;
    if (sibling ? program->socket.open_as_clone(sibling->socket) : program->socket.open_in(net, type))
        return nullptr;
    kapi_sk &sk = program->socket.sk();
    sk.sndbuf = profile.sndbuf;
    sk.rcvbuf = profile.rcvbuf;
    sk.sndtimeo_ns = sk.rcvtimeo_ns = 100 * kMillisecond;
    program->socket.set_option(KCM_ABI_RECV_CONNECTION, 1);
    program->socket.set_option(KCM_ABI_RECV_LENGTHS, profile.lengths);
    return program;
}

void KcmProgram::start()
{
    Node &node = *Node::current();
    sending_ = course_.world.spawn(node, "sender", [this] { send_loop(); });
    receiving_ = course_.world.spawn(node, "receiver", [this] { receive_loop(); });
}

void KcmProgram::stop()
{
    stopping_ = true;
    while (!sending_->is_done() || !receiving_->is_done())
        course_.world.sleep(kMillisecond);
    socket.close();
}

// ---- sending

unsigned KcmProgram::flags_of(bool ends) const
{
    if (!course_.profile.seqpacket || socket.spliced)
        return ends ? 0 : KCM_ABI_MSG_MORE;
    return ends ? KCM_ABI_MSG_EOR : 0;
}

/** ENOTCONN may also be the socket's error, of an earlier message. A call without bytes, as by splice(), does not return that. */
bool KcmProgram::has_gone(std::uint64_t connection)
{
    socket.spliced = true;
    return socket.send(nullptr, 0, KCM_ABI_MSG_MORE, connection) == -KAPI_ENOTCONN;
}

/** What one call took, of several messages maybe not all. None: the program must stop, or the required connection is gone. */
std::optional<std::size_t> KcmProgram::send_call(const unsigned char *bytes, std::size_t size, const Lengths &lengths, bool ends,
                                                 unsigned flags, std::uint64_t wanted)
{
    Random &random = course_.world.random();
    const KcmProfile &profile = course_.profile;
    while (!stopping_) {
        if (profile.bad_memory && !course_.calm && size && random.one_in(8)) {
            socket.trouble.fault_at = random.one_in(2) ? random.below(size) : kapi_msg::never;
            socket.trouble.stall_at = random.below(size);
            socket.trouble.stall_ns = random.below(20 * kMillisecond);
        }
        socket.spliced = lengths.empty() && profile.splices && random.one_in(3);
        unsigned how = flags | flags_of(ends) | (random.one_in(2) ? KCM_ABI_MSG_DONTWAIT : 0);
        long result = socket.send_each(bytes, size, lengths, how, wanted);
        if (result == static_cast<long>(size) || (result > 0 && !lengths.empty()))
            return static_cast<std::size_t>(result);
        if (wanted && result == -KAPI_ENOTCONN && has_gone(wanted))
            return std::nullopt;
        bool refused = result == -KAPI_ENOTCONN && profile.may_refuse();
        bool excused = (result == -KAPI_EFAULT && profile.bad_memory) || course_.may_break() || refused;
        if (result >= 0 || (result != -KAPI_EAGAIN && !excused))
            course_.fail("sendmsg of " + std::to_string(size) + " bytes returned " + std::to_string(result));
        course_.world.sleep(random.between(kMicrosecond, 2 * kMillisecond));
    }
    return std::nullopt;
}

bool KcmProgram::send_part(const unsigned char *bytes, std::size_t size, bool ends, unsigned flags, std::uint64_t wanted)
{
    return send_call(bytes, size, {}, ends, flags, wanted).has_value();
}

void KcmProgram::count_sent(std::uint32_t sender)
{
    sent_++;
    course_.ledger.sent(sender);
    course_.world.note("program sent", Node::current()->index(), sender);
}

/** The connection that a message was for is gone: it goes over any, and a later answer over one of these may overtake it. */
bool KcmProgram::leave_connection(std::uint64_t &wanted)
{
    if (!std::exchange(wanted, 0))
        return false;
    answerer_ = course_.next_sender++;
    return true;
}

/** Several small messages in one call, and what it did not take in others. */
bool KcmProgram::send_several()
{
    Random &random = course_.world.random();
    std::uint64_t wanted = course_.profile.answers && random.one_in(3) ? heard_ : 0;
    const std::uint32_t sender = wanted ? answerer_ : sender_;
    std::vector<unsigned char> bytes;
    Lengths lengths;
    for (std::uint64_t count = random.between(1, course_.wanted() - sent_); lengths.size() < count;) {
        auto message = course_.ledger.compose(sender, std::min<std::size_t>(course_.size(), 1000), lengths.size());
        bytes.insert(bytes.end(), message.begin(), message.end());
        lengths.push_back(static_cast<std::uint32_t>(message.size()));
    }
    for (std::size_t at = 0; at < bytes.size();) {
        auto taken = send_call(bytes.data() + at, bytes.size() - at, lengths, random.one_in(2),
                               random.one_in(4) ? KCM_ABI_MSG_BATCH : 0, wanted);
        if (!taken && !leave_connection(wanted))
            return false;
        for (at += taken.value_or(0); taken && *taken; lengths.erase(lengths.begin())) {
            if (lengths.empty() || *taken < lengths[0])
                course_.fail("a part of a message was sent");
            *taken -= lengths[0];
            count_sent(sender);
        }
    }
    return true;
}

/** In one call or in several; sometimes in a batch with later ones; sometimes to the last sender. */
bool KcmProgram::send_one()
{
    Random &random = course_.world.random();
    std::uint64_t wanted = course_.profile.answers && random.one_in(3) ? heard_ : 0;
    const std::uint32_t sender = wanted ? answerer_ : sender_;
    auto bytes = course_.ledger.compose(sender, course_.size());
    std::size_t parts = random.one_in(4) ? random.between(2, 60) : 1, at = 0;
    std::size_t step = std::max<std::size_t>(bytes.size() / parts, 1);
    while (at < bytes.size()) {
        bool ends = at + step >= bytes.size();
        unsigned flags = ends && random.one_in(4) ? KCM_ABI_MSG_BATCH : 0;
        std::size_t part = std::min(step, bytes.size() - at);
        if (send_part(bytes.data() + at, part, ends, flags, wanted))
            at += part;
        else if (leave_connection(wanted))
            at = 0; // what was begun is given up
        else
            return false;
    }
    count_sent(sender);
    return true;
}

void KcmProgram::send_loop()
{
    Random &random = course_.world.random();
    while (!stopping_) {
        while (sent_ < course_.wanted() && (course_.profile.lengths && random.one_in(2) ? send_several() : send_one()))
            if (!course_.calm && random.one_in(4))
                course_.world.sleep(random.below(20 * kMillisecond));
        // The end of a batch, which goes without it, too.
        if (flushed_ != sent_ && (random.one_in(2) || send_part(nullptr, 0, true, 0, 0)))
            flushed_ = sent_;
        course_.world.sleep(10 * kMillisecond);
    }
}

// ---- receiving

/** Size of one read: for the largest message, unless the rest of a message is kept. */
std::size_t KcmProgram::room()
{
    Random &random = course_.world.random();
    bool keeps = course_.profile.seqpacket || socket.spliced;
    return keeps && random.one_in(2) ? random.between(1, random.one_in(2) ? 50 : 20'000) : memory_.size();
}

/** Each message goes to the ledger when its end has come. */
void KcmProgram::received(const KcmSocket::Received &got)
{
    const unsigned char *at = memory_.data();
    bool ends = got.flags & KCM_ABI_MSG_EOR;
    std::size_t count = 0, sum = 0;
    for (const auto &run : got.runs)
        for (std::uint32_t length : run.lengths) {
            count++;
            sum += length;
            if (!run.connection || sum > memory_.size())
                return course_.fail("a message came from nowhere, or is too long");
            message_.insert(message_.end(), at, at + length);
            at += length;
            if (!ends)
                continue;
            heard_ = run.connection;
            course_.world.note("program received", sender_, message_.size());
            course_.ledger.received(place_ << 32 | run.connection, course_.profile.keeps_order(), message_.data(),
                                    message_.size());
            message_.clear();
        }
    if (static_cast<long>(sum) != got.result || (!ends && count != 1))
        course_.fail("the lengths of " + std::to_string(count) + " messages are not those of what was received");
}

/** False when nothing came. */
bool KcmProgram::receive_some()
{
    Random &random = course_.world.random();
    const KcmProfile &profile = course_.profile;
    if (profile.bad_memory && !course_.calm && random.one_in(8))
        socket.trouble.fault_at = random.below(profile.lengths ? 2000 : KcmLedger::smallest);
    socket.spliced = profile.splices && random.one_in(3);
    bool peek = random.one_in(8);
    std::size_t control_room = profile.lengths && random.one_in(2) ? random.between(64, 4096) : 64;
    auto got = socket.receive_each(memory_.data(), room(), peek ? KCM_ABI_MSG_PEEK : 0, control_room);
    if (got.result < 0) {
        bool refused = got.result == -KAPI_ENOTCONN && profile.may_refuse();
        bool excused = (got.result == -KAPI_EFAULT && profile.bad_memory) || course_.may_break() || refused;
        if (got.result != -KAPI_EAGAIN && !excused)
            course_.fail("recvmsg returned " + std::to_string(got.result));
        return false;
    }
    if (peek)
        return true;
    if (got.flags & ~KCM_ABI_MSG_EOR)
        course_.fail("a message arrived with flags " + std::to_string(got.flags));
    received(got);
    return true;
}

/** A partly read message is read to its end: closing the socket would discard the rest. */
void KcmProgram::receive_loop()
{
    Random &random = course_.world.random();
    while (!stopping_ || !message_.empty())
        if (receive_some() && random.one_in(16))
            course_.world.sleep(random.below(10 * kMillisecond));
}
