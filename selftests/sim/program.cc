// SPDX-License-Identifier: GPL-2.0
#include "program.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "course.h"
#include "net/rds/uapi.h"

using namespace sim;

namespace {
constexpr std::size_t kLargestMessage = 1 << 20;
constexpr std::size_t kAcquaintances = 5; // of a program in a cluster
} // namespace

Program::Program(Course &course, Site &site, unsigned index)
    : course_(course), site_(site), port_(static_cast<kapi_u16>(kFirstPort + site.number * course.profile.port_step + index)),
      socket_(site.machine.host)
{
}

// ---- its life

void Program::open()
{
    World &world = course_.world;
    if (socket_.open(*site_.net))
        world.fail("a socket does not open");
    kapi_sk &sk = socket_.sk();
    sk.sndbuf = course_.profile.sndbuf;
    sk.rcvbuf = course_.profile.rcvbuf;
    sk.zerocopy = course_.profile.zerocopy;
    sk.sndtimeo_ns = world.random().one_in(2) ? KAPI_FOREVER : 300 * kMillisecond;
    sk.rcvtimeo_ns = 200 * kMillisecond;
    if (int err = socket_.bind(site_.address(port_)))
        world.fail("bind: %d", err);
    if (course_.profile.clock_jumps)
        set_clocks();
    int lengths = course_.profile.lengths;
    if (int err = socket_.set_option(RDS_ABI_RECV_LENGTHS, &lengths, sizeof(lengths)))
        world.fail("RDS_RECV_LENGTHS: %d", err);
    sent_to_.clear();
    identity_ = course_.ledger.opened(site_.number, port_);
}

/** A program that enables time stamps and latencies. */
void Program::set_clocks()
{
    static constexpr int kTimestampNew = 63;
    rds_abi_rx_trace_so traces{RDS_ABI_RX_TRACE_MAX, {}};
    for (unsigned i = 0; i < RDS_ABI_RX_TRACE_MAX; i++)
        traces.rx_trace_pos[i] = static_cast<kapi_u8>(i);
    socket_.sk().timestamps = kTimestampNew;
    if (int err = socket_.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)))
        course_.world.fail("SO_RDS_MSG_RXPATH_LATENCY: %d", err);
}

void Program::start()
{
    stopping_ = false;
    Node &node = site_.machine.node;
    sender_ = course_.world.spawn(node, "sender", [this] { send_loop(); });
    receiver_ = course_.world.spawn(node, "receiver", [this] { receive_loop(); });
}

void Program::stop()
{
    World &world = course_.world;
    stopping_ = true;
    for (Task *task : {sender_.get(), receiver_.get()})
        if (!task->is_done())
            world.signal(*task);
    while (!sender_->is_done() || !receiver_->is_done())
        world.sleep(kMillisecond);
    course_.ledger.closed(identity_);
    socket_.close();
    abandon_memory();
}

void Program::crashed()
{
    course_.ledger.closed(identity_);
    socket_.forget();
    abandon_memory();
}

/** The host may hold the pages a little longer, as after the death of a process. */
void Program::abandon_memory()
{
    for (auto &[cookie, buffer] : pinned_)
        course_.abandoned.push_back(std::move(buffer));
    pinned_.clear();
}

// ---- sending

std::size_t Program::message_size()
{
    Random &random = course_.world.random();
    std::size_t largest = course_.profile.largest;
    std::size_t most = random.one_in(3) ? largest : std::min<std::size_t>(largest, 2000);
    return sizeof(Label) + random.below(most - sizeof(Label) + 1);
}

/** Sometimes a byte of the next call's memory faults, or is slow to come. */
void Program::make_trouble(std::size_t size)
{
    Random &random = course_.world.random();
    if (!course_.profile.bad_memory || !random.one_in(8))
        return;
    if (random.one_in(2)) {
        socket_.trouble.fault_at = random.below(size);
    } else {
        socket_.trouble.stall_at = random.below(size);
        socket_.trouble.stall_ns = random.below(50 * kMillisecond);
    }
}

long Program::try_to_send(const kapi_addr &to)
{
    Random &random = course_.world.random();
    auto &bytes = *outgoing_;
    unsigned flags = course_.profile.nonblocking && random.one_in(2) ? RDS_ABI_MSG_DONTWAIT : 0;
    flags |= random.one_in(4) ? RDS_ABI_MSG_BATCH : 0;
    make_trouble(bytes.size());
    if (!course_.profile.zerocopy || random.one_in(2))
        return socket_.send(bytes.data(), bytes.size(), to, flags);
    std::uint32_t cookie = next_cookie_++;
    pinned_[cookie] = outgoing_;
    long result = socket_.send_pinned(bytes.data(), bytes.size(), to, cookie, flags);
    if (result < 0)
        pinned_.erase(cookie);
    return result;
}

/** True if sendmsg may fail so, and must be called again. */
bool Program::may_be(long error) const
{
    const Profile &profile = course_.profile;
    switch (error) {
    case KAPI_EAGAIN:
    case KAPI_ENOBUFS:
    case KAPI_ETIMEDOUT:
    case KAPI_EINTR:
    case KAPI_ERESTARTSYS:
        return true;
    case KAPI_EFAULT:
        return profile.bad_memory;
    case KAPI_ENOMEM:
        return profile.fail_one_in || profile.famines;
    default:
        return false;
    }
}

/** False when the program must stop. */
bool Program::send_to(const Site &to, std::size_t index)
{
    World &world = course_.world;
    std::uint32_t site = to.number, port = to.programs[index]->port();
    kapi_addr target = to.address(static_cast<kapi_u16>(port));
    outgoing_ = std::make_shared<std::vector<unsigned char>>(
        course_.ledger.compose(identity_, site, port, message_size()));
    auto size = static_cast<long>(outgoing_->size());
    while (!stopping_) {
        long result = try_to_send(target);
        if (result == size) {
            course_.ledger.sent(identity_, site, port);
            sent_to_.insert(site);
            world.note("program sent", identity_, site * 100000 + port);
            return true;
        }
        if (result >= 0 || !may_be(-result))
            world.fail("sendmsg of %ld bytes returned %ld", size, result);
        world.sleep(world.random().between(kMicrosecond, 5 * kMillisecond));
    }
    return false;
}

void Program::compose_several(std::uint32_t site, std::uint32_t port)
{
    static constexpr std::size_t kMost = 2000;
    outgoing_ = std::make_shared<std::vector<unsigned char>>();
    lengths_.clear();
    for (std::uint64_t count = course_.world.random().between(2, 20); lengths_.size() < count;) {
        auto message = course_.ledger.compose(identity_, site, port, std::min(message_size(), kMost), lengths_.size());
        outgoing_->insert(outgoing_->end(), message.begin(), message.end());
        lengths_.push_back(static_cast<std::uint32_t>(message.size()));
    }
}

/** So many bytes of whole messages were taken. */
void Program::note_sent(std::size_t bytes, std::uint32_t site, std::uint32_t port)
{
    outgoing_ = std::make_shared<std::vector<unsigned char>>(outgoing_->begin() + static_cast<std::ptrdiff_t>(bytes),
                                                             outgoing_->end());
    for (; bytes; lengths_.erase(lengths_.begin())) {
        if (lengths_.empty() || lengths_[0] > bytes)
            course_.world.fail("sendmsg took %zu bytes of a message", bytes);
        bytes -= lengths_[0];
        course_.ledger.sent(identity_, site, port);
    }
}

/** Several messages in a call. False when the program must stop. */
bool Program::send_several(const Site &to, std::size_t index)
{
    World &world = course_.world;
    std::uint32_t site = to.number, port = to.programs[index]->port();
    kapi_addr target = to.address(static_cast<kapi_u16>(port));
    compose_several(site, port);
    while (!stopping_) {
        unsigned flags = course_.profile.nonblocking && world.random().one_in(2) ? RDS_ABI_MSG_DONTWAIT : 0;
        make_trouble(outgoing_->size());
        long result = socket_.send_each(outgoing_->data(), outgoing_->size(), target, lengths_, flags);
        if (result == 0 || (result < 0 && !may_be(-result)))
            world.fail("sendmsg of several messages returned %ld", result);
        if (result > 0) {
            note_sent(static_cast<std::size_t>(result), site, port);
            sent_to_.insert(site);
            world.note("program sent several", identity_, site * 100000 + port);
        }
        if (lengths_.empty())
            return true;
        world.sleep(world.random().between(kMicrosecond, 5 * kMillisecond));
    }
    return false;
}

/** The next destination: any, but in a cluster one of the program's few first ones. */
const Site &Program::partner()
{
    Random &random = course_.world.random();
    if (course_.profile.hot)
        return *course_.sites.front();
    if (course_.profile.cluster && sent_to_.size() >= kAcquaintances) {
        auto known = std::next(sent_to_.begin(), static_cast<std::ptrdiff_t>(random.below(sent_to_.size())));
        return *course_.sites[*known];
    }
    return *course_.sites[random.below(course_.sites.size())];
}

/** In a cluster a program sends to few, and to the next one. */
bool Program::knows(const Site &to) const
{
    return !course_.profile.cluster || sent_to_.contains(to.number) ||
           to.number == (site_.number + 1) % course_.sites.size();
}

/** Sends to all known destinations. False when the program must stop. */
bool Program::say_one_more_round(unsigned round)
{
    while (course_.calm_rounds < round && !stopping_)
        course_.world.sleep(20 * kMillisecond);
    for (const Site *to : course_.sites)
        for (std::size_t index = 0; index < to->programs.size(); index++)
            if (knows(*to) && !send_to(*to, index))
                return false;
    rounds_done_ = round;
    return true;
}

void Program::send_loop()
{
    World &world = course_.world;
    const Profile &profile = course_.profile;
    Random &random = world.random();
    for (unsigned i = 0; i < profile.messages; i++) {
        const Site &to = partner();
        std::size_t index = profile.hot ? 0 : random.below(profile.sockets);
        bool several = profile.lengths && random.one_in(2);
        if (to.programs.size() == profile.sockets && !(several ? send_several(to, index) : send_to(to, index)))
            return;
        if (random.one_in(4))
            world.sleep(random.below(profile.fault_time_ns / profile.messages * 4));
    }
    // After the last fault, two rounds to all. By the first a sender notices that a machine restarted,
    // and may have to give messages up: it is unknown whether they arrived before the machine crashed.
    for (unsigned round = 1; round <= 2; round++)
        if (!say_one_more_round(round))
            return;
}

// ---- receiving

/** Memory released by core. */
void Program::take_back(const std::vector<std::uint32_t> &cookies)
{
    for (std::uint32_t cookie : cookies) {
        auto pinned = pinned_.find(cookie);
        if (pinned == pinned_.end())
            course_.world.fail("cookie %u comes back twice, or was never given", cookie);
        std::fill(pinned->second->begin(), pinned->second->end(), 0xee); // it is no longer read
        pinned_.erase(pinned);
    }
}

/** One message, or a run of them; or a negative result. */
RdsSocket::Run Program::receive()
{
    Random &random = course_.world.random();
    bool lengths = course_.profile.lengths;
    make_trouble(lengths ? 2000 : sizeof(Label));
    socket_.trouble.control_faults = lengths && course_.profile.bad_memory && random.one_in(8);
    std::size_t control_room = lengths && random.one_in(2) ? random.below(4096) : 256;
    RdsSocket::Run run = socket_.receive_run(incoming_.data(), incoming_.size(), 0, control_room);
    take_back(run.cookies);
    if (run.result == 0 && !run.cookies.empty())
        run.result = -KAPI_EAGAIN;
    if (run.lengths.empty() && run.result >= 0)
        run.lengths = {static_cast<std::uint32_t>(run.result)};
    return run;
}

void Program::account_run(const RdsSocket::Run &run)
{
    const unsigned char *bytes = incoming_.data();
    incoming_from_ = run.from;
    for (std::uint32_t length : run.lengths) {
        account(bytes, length);
        bytes += length;
    }
    if (bytes - incoming_.data() != run.result)
        course_.world.fail("the lengths of %zu messages are not of the %ld bytes that were received", run.lengths.size(),
                           run.result);
}

/** The processors' clocks differ a little, but no latency exceeds the whole run. */
void Program::check_latency()
{
    for (const auto &control : socket_.control()) {
        if (control.type != RDS_ABI_CMSG_RXPATH_LATENCY)
            continue;
        rds_abi_cmsg_rx_trace trace{};
        if (!control.data.empty()) // there was room for all of it, or for a part, or for its head alone
            std::memcpy(&trace, control.data.data(), std::min(sizeof(trace), control.data.size()));
        for (unsigned i = 0; i < std::min<unsigned>(trace.rx_traces, RDS_ABI_RX_TRACE_MAX); i++)
            if (trace.rx_trace[i] > course_.world.now_ns())
                course_.world.fail("a message took %llu ns by its latency report", trace.rx_trace[i]);
    }
}

/** Identifies the message's sender, and checks that it should have come. */
void Program::account(const unsigned char *bytes, std::size_t size)
{
    if (course_.adversary && course_.adversary->is_at(incoming_from_)) {
        course_.outcome.hostile_messages++;
        return;
    }
    for (const Site *from : course_.sites)
        if (same_ip(from->address(), incoming_from_))
            return course_.ledger.received(identity_, site_.number, port_, from->number, bytes, size);
    course_.world.fail("a message came from an unknown address");
}

void Program::receive_loop()
{
    World &world = course_.world;
    const Profile &profile = course_.profile;
    incoming_.resize(kLargestMessage);
    while (!stopping_) {
        run_ = receive();
        long size = run_.result;
        if (size >= 0) {
            check_latency();
            world.note("program received", identity_, static_cast<std::uint64_t>(size));
            account_run(run_);
            if (profile.slow_receivers && world.random().one_in(profile.hot ? 2 : 4))
                world.sleep(world.random().below(100 * kMillisecond));
            continue;
        }
        bool excused = size == -KAPI_EFAULT && profile.bad_memory;
        if (size != -KAPI_ETIMEDOUT && size != -KAPI_EAGAIN && size != -KAPI_EINTR && size != -KAPI_ENOMEM && !excused)
            world.fail("recvmsg returned %ld", size);
    }
}
