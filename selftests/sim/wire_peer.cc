// SPDX-License-Identifier: GPL-2.0
#include "wire_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

const kapi_stream_ops WireStream::kOps{
    .rx =
        [](void *context, kapi_rx *rx, kapi_size length) {
            WireStream &self = *static_cast<WireStream *>(context);
            if (self.deaf)
                return kapi_size{0};
            std::size_t before = self.bytes_.size();
            self.bytes_.resize(before + length);
            kapi_rx_copy(rx, 0, self.bytes_.data() + before, length);
            self.parse();
            return length;
        },
    .acked = [](void *, kapi_u32) {},
    .event =
        [](void *context, kapi_stream_event event, int) {
            WireStream &self = *static_cast<WireStream *>(context);
            (event == KAPI_STREAM_ESTABLISHED ? self.up_ : self.gone_) = true;
        },
};

void WireStream::parse()
{
    Received arrived;
    while (bytes_.size() >= sizeof(arrived.header)) {
        std::memcpy(&arrived.header, bytes_.data(), sizeof(arrived.header));
        std::size_t size = sizeof(arrived.header) + arrived.header.length;
        if (bytes_.size() < size)
            return;
        arrived.payload = bytes_.substr(sizeof(arrived.header), arrived.header.length);
        bytes_.erase(0, size);
        if (arrived.header.flags == rds::flag_congestion_map)
            maps_++;
        else
            received_.push_back(arrived);
    }
}

void WireStream::begin()
{
    close(true);
    up_ = gone_ = false;
    bytes_.clear();
    out_.clear();
    received_.clear();
    maps_ = 0;
}

bool WireStream::accept(kapi_listener *listener)
{
    kapi_stream *stream;
    if (kapi_accept(listener, &stream))
        return false;
    adopt(stream);
    return true;
}

void WireStream::adopt(kapi_stream *stream)
{
    begin();
    sim::NodeScope scope(node_);
    stream_ = stream;
    up_ = true;
    kapi_stream_options options{};
    kapi_stream_attach(stream_, &options, &kOps, this);
}

bool WireStream::start(const kapi_addr &from, const kapi_addr &to)
{
    begin();
    sim::NodeScope scope(node_);
    kapi_stream_options options{};
    return kapi_stream_connect(&node_.initial_net(), &from, &to, &options, &kOps, this, &stream_) == 0;
}

bool WireStream::connect(const kapi_addr &from, const kapi_addr &to, std::uint64_t wait_ns)
{
    return start(from, to) && wait([this] { return up_ || gone_; }, wait_ns) && up_;
}

void WireStream::close(bool abort)
{
    sim::NodeScope scope(node_);
    kapi_stream_close(std::exchange(stream_, nullptr), abort);
}

void WireStream::shut()
{
    sim::NodeScope scope(node_);
    kapi_stream_shutdown_write(stream_);
}

void WireStream::read_on()
{
    deaf = false;
    sim::NodeScope scope(node_);
    if (stream_)
        kapi_stream_resume(stream_);
}

bool WireStream::wait(const std::function<bool()> &condition, std::uint64_t wait_ns)
{
    std::uint64_t end_ns = sim::world().now_ns() + wait_ns, look_ns = 100 * sim::kMicrosecond;
    while (!condition()) {
        if (sim::world().now_ns() >= end_ns)
            return false;
        sim::world().sleep(look_ns);
        look_ns = std::min(look_ns + look_ns / 4, 5 * sim::kMillisecond);
    }
    return true;
}

bool WireStream::send(const void *bytes, std::size_t size)
{
    std::uint64_t began_ns = sim::world().now_ns();
    queue(bytes, size);
    while (has_more() && sim::world().now_ns() - began_ns < patience_ns) {
        sim::world().sleep(sim::kMillisecond);
        flush();
    }
    bool all = is_usable() && out_.empty();
    out_.clear();
    return all;
}

void WireStream::queue(const void *bytes, std::size_t size)
{
    if (is_usable() && out_.size() < kMostQueued)
        out_.append(static_cast<const char *>(bytes), size);
    flush();
}

void WireStream::flush()
{
    if (!has_more())
        return;
    sim::NodeScope scope(node_);
    kapi_segment segment{out_.data(), nullptr, 0, static_cast<kapi_u32>(out_.size())};
    kapi_u32 end;
    kapi_s64 taken = kapi_stream_send(stream_, &segment, 1, 0, &end);
    if (taken < 0)
        gone_ = true;
    else
        out_.erase(0, static_cast<std::size_t>(taken));
}

bool WireStream::message(kapi_u64 sequence, kapi_u16 sport, kapi_u16 dport, const std::string &payload,
                         unsigned flags)
{
    rds::Header header{};
    header.sequence = sequence;
    header.length = static_cast<kapi_u32>(payload.size());
    header.sport = sport;
    header.dport = dport;
    header.flags = static_cast<kapi_u8>(flags);
    return send(&header, sizeof(header)) && send(payload.data(), payload.size());
}

bool WireStream::handshake(bool is_reply, kapi_u32 generation, unsigned path, kapi_u32 memory)
{
    rds::Header header{};
    header.sport = is_reply ? 0 : rds::probe_port;
    header.dport = is_reply ? rds::probe_port : 0;
    rds::write_handshake(header, generation, static_cast<kapi_u8>(path), memory);
    return send(&header, sizeof(header));
}

WireStream::Received WireStream::next(std::uint64_t wait_ns)
{
    if (!wait([this] { return !received_.empty(); }, wait_ns))
        return {};
    Received arrived = std::move(received_.front());
    received_.pop_front();
    return arrived;
}
