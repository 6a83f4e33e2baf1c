// SPDX-License-Identifier: GPL-2.0
#include "kcm_wire.h"

#include <kapi/errno.h>

#include <algorithm>
#include <utility>

using namespace sim;

namespace {

/** Reads all available data: returns 0 at the end of the stream, or an errno. */
long read_all(int fd, std::string &to)
{
    char bytes[16 * 1024];
    for (;;) {
        long got = program_read(fd, bytes, sizeof(bytes), Wait::no);
        if (got <= 0)
            return got;
        to.append(bytes, static_cast<std::size_t>(got));
    }
}

} // namespace

KcmWire::KcmWire(Node &peer, KcmLedger &ledger, std::uint32_t of, std::uint64_t place, int here, int there)
    : sender(of), peer_(peer), ledger_(ledger), place_(place), here_(here), there_(there)
{
    socket_ = Node::current()->descriptors.find(here)->socket;
    peers_tcb_ = peer.descriptors.find(there)->socket->tcb;
}

// ---- the peer

std::uint64_t KcmWire::compose(std::size_t size)
{
    std::uint64_t number = ledger_.sent_by(sender);
    auto bytes = ledger_.compose(sender, size);
    out_.append(bytes.begin(), bytes.end());
    ledger_.sent(sender);
    largest_ = std::max(largest_, size);
    limit(limit_);
    return number;
}

void KcmWire::babble(const std::string &bytes)
{
    out_ += bytes;
    excused = true;
    in_frame = false;
}

void KcmWire::write(std::size_t most)
{
    if (there_ < 0 || out_.empty() || !most)
        return;
    NodeScope scope(peer_);
    long taken = program_write(there_, out_.data(), std::min(most, out_.size()), Wait::no);
    if (taken > 0)
        out_.erase(0, static_cast<std::size_t>(taken));
}

/** Whole messages go to the ledger; the rest stays. */
void KcmWire::cut_frames(std::string &bytes, std::uint64_t place)
{
    const auto *at = reinterpret_cast<const unsigned char *>(bytes.data());
    std::size_t left = bytes.size();
    while (left >= 4) {
        std::size_t size = 4 + (std::size_t{at[0]} << 24 | std::size_t{at[1]} << 16 | std::size_t{at[2]} << 8 | at[3]);
        if (size > kLargest)
            broken("the reader of a stream is out of frame");
        if (size > left)
            break;
        ledger_.received(place, true, at, size);
        at += size;
        left -= size;
    }
    bytes.erase(0, bytes.size() - left);
}

void KcmWire::read_on()
{
    if (deaf || there_ < 0)
        return;
    NodeScope scope(peer_);
    long end = read_all(there_, in_);
    cut_frames(in_, place_);
    if (end == 0 && !in_.empty())
        world().fail("a connection ended within a message, and its peer got no error");
}

void KcmWire::finish()
{
    excused = true;
    NodeScope scope(peer_);
    if (there_ >= 0)
        program_shutdown_write(there_);
}

void KcmWire::leave()
{
    excused = true;
    NodeScope scope(peer_);
    if (there_ >= 0)
        program_close(std::exchange(there_, -1));
}

// ---- the program here

void KcmWire::read_plain()
{
    if (here_ < 0 || taken_over())
        return;
    read_all(here_, plain_);
    if (in_frame)
        cut_frames(plain_, place_ + 1);
}

bool KcmWire::write_plain(std::uint32_t own_sender)
{
    if (here_ < 0 || taken_over())
        return false;
    auto bytes = ledger_.compose(own_sender, KcmLedger::smallest);
    long taken = program_write(here_, bytes.data(), bytes.size(), Wait::no);
    if (taken == static_cast<long>(bytes.size()))
        ledger_.sent(own_sender);
    else if (taken > 0)
        leave(); // a truncated message is not delivered
    return taken > 0;
}

void KcmWire::close_here()
{
    excused = true;
    if (here_ >= 0)
        program_close(std::exchange(here_, -1));
}

// ---- the connection

void KcmWire::reset(Sees sees)
{
    excused = true;
    if (sees != Sees::second)
        socket_->tcb->post({Tcb::Input::lost, nullptr, -KAPI_ECONNRESET});
    if (sees != Sees::first)
        peers_tcb_->post({Tcb::Input::lost, nullptr, -KAPI_ECONNRESET});
}

bool KcmWire::is_alive() const
{
    auto can_talk = [](const Tcb &tcb) {
        return tcb.state == TcpState::established && !tcb.fin_received && !tcb.fin_queued && !tcb.orphan;
    };
    return can_talk(*socket_->tcb) && can_talk(*peers_tcb_);
}

void KcmWire::limit(std::size_t bytes)
{
    limit_ = std::min(limit_, bytes);
    excused |= is_too_large();
}
