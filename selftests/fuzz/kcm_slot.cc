// SPDX-License-Identifier: GPL-2.0
#include "kcm_slot.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

using namespace sim;

namespace {

constexpr std::uint64_t kPatience = 20 * kMillisecond;

bool has_fault(const Trouble &trouble)
{
    return trouble.fault_at != kapi_msg::never;
}

} // namespace

// ---- state

bool KcmMuxNote::out_of_frame() const
{
    return std::any_of(wires.begin(), wires.end(), [](const KcmWire *wire) { return !wire->in_frame; });
}

bool KcmMuxNote::has_connection() const
{
    return std::any_of(wires.begin(), wires.end(), [&](KcmWire *wire) {
        return wire->owner == this && wire->taken_over() && wire->is_alive();
    });
}

void KcmMuxNote::lose()
{
    for (KcmWire *wire : wires)
        wire->lossy = true;
}

bool KcmMuxNote::excused() const
{
    return std::any_of(wires.begin(), wires.end(), [](const KcmWire *wire) { return wire->excused; });
}

void KcmBooks::excuse_wanted(std::uint64_t id)
{
    over.push_back(id);
    for (KcmSent &message : sent)
        if (message.wanted && (!id || message.wanted == id))
            message.excused = true;
}

void KcmBooks::excuse_closed(const KcmMuxNote &mux)
{
    for (KcmSent &message : sent)
        if (message.mux.get() == &mux && message.closed)
            message.excused = true;
}

// ---- opening and closing

void KcmSlot::begin(std::shared_ptr<KcmMuxNote> of)
{
    mux = std::move(of);
    mux->open++;
    sender_ = books_.next_sender++;
    place_ = books_.next_place++;
    mixed_ = false;
    wanted_ = 0;
    socket.sk().sndtimeo_ns = socket.sk().rcvtimeo_ns = kPatience;
    socket.set_option(KCM_ABI_RECV_CONNECTION, 1);
}

void KcmSlot::open(kapi_net &net, int type)
{
    if (socket.open_in(net, type))
        return;
    datagram_ = type == KCM_ABI_SOCK_DGRAM;
    begin(std::make_shared<KcmMuxNote>());
}

void KcmSlot::clone(KcmSlot &of)
{
    if (socket.open_as_clone(of.socket))
        return;
    datagram_ = of.datagram_;
    begin(of.mux);
}

void KcmSlot::close()
{
    if (!is_open())
        return;
    while (users)
        world().sleep(kMillisecond);
    mux->moved = true;
    mux->open--;
    if (!mux->open || !assembly_.empty())
        mux->lose();
    for (KcmSent &message : books_.sent)
        message.closed |= message.place == place_;
    if (!mux->has_connection())
        books_.excuse_closed(*mux);
    end_message();
    assembly_.clear();
    socket.close();
    mux = nullptr;
}

/** Memory faults and allocation failures only by arrangement. */
void KcmSlot::check_failure(long result, const Trouble &trouble, unsigned starved_before) const
{
    bool is_errno = result < 0 && result > -4096;
    bool starved = books_.memory_fails || books_.starved != starved_before; // it may have ended since, when the memory stalled
    bool arranged = (result != -KAPI_EFAULT || has_fault(trouble)) && (result != -KAPI_ENOMEM || starved);
    if (!is_errno || !arranged)
        world().fail("a call returned %ld", result);
}

// ---- sending

unsigned KcmSlot::flags_of(const Sending &sending, bool ends) const
{
    unsigned flags = sending.flags & (KCM_ABI_MSG_DONTWAIT | KCM_ABI_MSG_BATCH);
    if (datagram_ || sending.spliced)
        return ends ? flags : flags | KCM_ABI_MSG_MORE;
    return ends ? flags | KCM_ABI_MSG_EOR : flags;
}

void KcmSlot::sent(std::uint32_t sender, std::uint64_t wanted, std::size_t over_before)
{
    std::uint64_t number = books_.ledger.sent_by(sender);
    books_.ledger.sent(sender);
    bool refused = std::any_of(books_.over.begin() + static_cast<std::ptrdiff_t>(over_before), books_.over.end(),
                               [&](std::uint64_t id) { return wanted && (!id || id == wanted); });
    books_.sent.push_back({mux, sender, number, wanted, place_, false, refused});
}

/** There is no order between the queue of any connection and the queues of addressed ones: another queue, another sender. */
void KcmSlot::begin_message(const Sending &sending)
{
    if (sending.wanted != wanted_)
        sender_ = books_.next_sender++;
    wanted_ = sending.wanted;
    over_before_ = books_.over.size();
    message_ = books_.ledger.compose(sender_, sending.size);
}

void KcmSlot::end_message()
{
    message_.clear();
    at_ = 0;
}

bool KcmSlot::is_lost()
{
    if (!at_ || !wanted_)
        return false;
    socket.trouble = {};
    socket.spliced = true; // does not return the socket's error
    if (socket.send(nullptr, 0, KCM_ABI_MSG_MORE, wanted_) != -KAPI_ENOTCONN)
        return false;
    end_message();
    return true;
}

bool KcmSlot::send(const Sending &sending)
{
    if (!at_)
        begin_message(sending);
    std::size_t part = std::min(sending.part, message_.size() - at_);
    bool ends = sending.ends && at_ + part == message_.size();
    if (!part && !ends) {
        if (!at_)
            end_message();
        return true;
    }
    unsigned starved_before = books_.starved_before_now();
    socket.trouble = sending.trouble;
    socket.spliced = sending.spliced;
    std::vector<unsigned char> bytes(message_.begin() + static_cast<std::ptrdiff_t>(at_),
                                     message_.begin() + static_cast<std::ptrdiff_t>(at_ + part));
    long result = socket.send(bytes.data(), part, flags_of(sending, ends), sending.wanted);
    if (result != static_cast<long>(part)) {
        check_failure(result, sending.trouble, starved_before);
        if (!at_)
            end_message();
        else if (result == -KAPI_ENOTCONN)
            is_lost();
        return false;
    }
    at_ += part;
    if (ends) {
        sent(sender_, wanted_, over_before_);
        end_message();
    }
    return true;
}

long KcmSlot::send_alone(const Sending &sending)
{
    is_lost(); // this call would give it up
    std::uint32_t sender = books_.next_sender++;
    auto bytes = books_.ledger.compose(sender, sending.size);
    std::size_t over_before = books_.over.size();
    unsigned starved_before = books_.starved_before_now();
    socket.trouble = sending.trouble;
    socket.spliced = sending.spliced;
    long result = socket.send(bytes.data(), bytes.size(), flags_of(sending, true), sending.wanted);
    if (result != static_cast<long>(bytes.size())) {
        check_failure(result, sending.trouble, starved_before);
        return result;
    }
    sent(sender, sending.wanted, over_before);
    return result;
}

long KcmSlot::flush()
{
    if (is_building() && at_ == message_.size())
        return send({.size = 0, .part = 0}) ? 0 : -KAPI_EAGAIN;
    socket.spliced = false;
    return socket.send(nullptr, 0, is_building() ? (datagram_ ? KCM_ABI_MSG_MORE : 0) : KCM_ABI_MSG_EOR);
}

// ---- receiving

/** A message came to its end, or was cut there. */
void KcmSlot::take_whole(std::string bytes, bool cut, std::uint64_t connection)
{
    const auto *at = reinterpret_cast<const unsigned char *>(bytes.data());
    bool has_label = bytes.size() >= KcmLedger::smallest;
    std::size_t size = bytes.size();
    if (has_label && cut)
        size = 4 + (std::size_t{at[0]} << 24 | std::size_t{at[1]} << 16 | std::size_t{at[2]} << 8 | at[3]);
    bool is_message = has_label && books_.ledger.is_message(at, size);
    if (!is_message && (cut || mixed_ || mux->out_of_frame()))
        return mux->lose(); // it is unknown which one it was
    bool is_wrong = cut && size <= bytes.size();
    if (is_wrong && mux->out_of_frame())
        return mux->lose(); // a wrong filter sees messages where the peer sent none
    if (is_wrong)
        world().fail("a message of %zu bytes was cut after %zu", size, bytes.size());
    bool ordered = connection && !mux->moved && !mixed_;
    books_.ledger.received_cut(place_ << 32 | connection, ordered, at, bytes.size(), size);
}

long KcmSlot::receive(const Receiving &receiving)
{
    std::vector<unsigned char> bytes = std::exchange(memory_, {});
    bytes.resize(std::max(bytes.size(), receiving.size));
    mixed_ |= readers_++ != 0;
    unsigned starved_before = books_.starved_before_now();
    socket.trouble = receiving.trouble;
    socket.spliced = receiving.spliced;
    auto received = socket.receive_each(bytes.data(), receiving.size, receiving.flags, receiving.control_room);
    long got = received.result;
    readers_--;
    if (got > static_cast<long>(receiving.size))
        world().fail("recvmsg of %zu bytes returned %ld", receiving.size, got);
    std::string read(reinterpret_cast<const char *>(bytes.data()), got > 0 ? static_cast<std::size_t>(got) : 0);
    memory_ = std::move(bytes);
    if (got < 0) {
        check_failure(got, receiving.trouble, starved_before);
        return got;
    }
    if (receiving.flags & KCM_ABI_MSG_PEEK)
        return got;
    take_all(received, read);
    return got;
}

void KcmSlot::take_all(const KcmSocket::Received &received, const std::string &read)
{
    std::size_t at = 0;
    for (const auto &run : received.runs)
        for (std::uint32_t length : run.lengths) {
            if (length > read.size() - at)
                return world().fail("a message of %u bytes in %zu", length, read.size() - at);
            assembly_ += read.substr(at, length);
            at += length;
            if (received.flags & KCM_ABI_MSG_EOR)
                take_whole(std::exchange(assembly_, {}), received.flags & KCM_ABI_MSG_TRUNC, run.connection);
            else if (at != read.size())
                world().fail("a message behind a part of another one");
        }
    if (at != read.size())
        world().fail("%zu bytes are of no message", read.size() - at);
}

void KcmSlot::look_and_receive(std::size_t size)
{
    std::string seen(size, '\0');
    bool alone = !users;
    socket.spliced = false;
    long peeked = socket.receive(seen.data(), size, KCM_ABI_MSG_PEEK | KCM_ABI_MSG_DONTWAIT);
    std::size_t before = assembly_.size();
    std::string start = assembly_;
    long got = receive({.size = size, .flags = KCM_ABI_MSG_DONTWAIT, .control_room = 0});
    if (!alone || users || peeked < 0)
        return;
    if (got != peeked)
        world().fail("MSG_PEEK gave %ld, and the real recvmsg %ld", peeked, got);
    if (!assembly_.empty() && assembly_ != start + seen.substr(0, assembly_.size() - before))
        world().fail("MSG_PEEK gave other bytes than the real recvmsg");
}

void KcmSlot::poll_and_call(bool sends)
{
    if (users)
        return;
    unsigned events = socket.poll();
    if (events & KAPI_ERR)
        return; // the call returns the error
    if (!sends) {
        long got = receive({.size = KcmWire::kLargest, .flags = KCM_ABI_MSG_DONTWAIT});
        if ((events & KAPI_IN) && got == -KAPI_EAGAIN)
            world().fail("poll reports a message, and recvmsg finds none");
    } else if (!is_building()) {
        long sent = send_alone({.size = 100, .part = 100, .flags = KCM_ABI_MSG_DONTWAIT});
        if ((events & KAPI_OUT) && sent == -KAPI_EAGAIN)
            world().fail("poll reports room, and sendmsg finds none");
    }
}
