// SPDX-License-Identifier: GPL-2.0
// The steps of the peer and of the world.
#include "selftests/fuzz/rds_course.h"

#include <kapi/stream.h>
#include <algorithm>
#include <utility>

namespace {

constexpr kapi_u16 kRdsPort = 16385;

} // namespace

void RdsCourse::listen(bool on)
{
    sim::NodeScope scope(peer_);
    kapi_addr any = at(peers_, kRdsPort);
    if (on) {
        if (kapi_listen(&peer_.initial_net(), &any, 64, [](void *) {}, nullptr, &listener_) != 0)
            world_.fail("the peer cannot listen");
        return;
    }
    kapi_listener_stop(listener_);
    kapi_listener_close(listener_);
}

void RdsCourse::accept_all()
{
    sim::NodeScope scope(peer_);
    kapi_stream *stream;
    while (kapi_accept(listener_, &stream) == 0) {
        kapi_addr local, remote;
        kapi_stream_addrs(stream, &local, &remote);
        RdsWire &wire = *wires_[remote.port % kStreams];
        wire.begin();
        wire.stream.adopt(stream);
    }
}

/** From its own port, which encodes the path. */
void RdsCourse::connect(RdsWire &wire, unsigned path)
{
    next_port_ = static_cast<kapi_u16>(next_port_ + 8);
    wire.begin();
    wire.stream.start(at(peers_, static_cast<kapi_u16>(next_port_ + path)), at(own_, kRdsPort));
}

rds::Header RdsCourse::header_of(const Step &step, kapi_u64 sequence, kapi_u32 length)
{
    rds::Header header{};
    header.sequence = sequence;
    header.length = length;
    header.sport = static_cast<kapi_u16>(step[3] % 4 ? kPeersPort : step[3] % 3);
    header.dport = static_cast<kapi_u16>(step[4] % 8 > 2 ? 1000 + step[4] % kSockets : step[4] % 3);
    header.flags = step[5] % 4 ? 0 : static_cast<kapi_u8>(step[6]);
    return header;
}

void RdsCourse::step_of_peer(const Step &step)
{
    RdsWire &wire = *wires_[step[1] % kStreams];
    kapi_u64 &sequence = sequence_[step[1] % kStreams];
    accept_all();
    switch (step[0] / 4 % 10) {
    case 0:
        connect(wire, step[2] % kStreams);
        sequence = step[3] % 4 ? 0 : sequence;
        return;
    case 1:
        return wire.stream.close(step[2] % 2);
    case 2: { // a handshake of a hawser peer, with any names
        rds::Header header{};
        bool is_reply = step[2] % 2;
        header.sport = is_reply ? 0 : rds::probe_port;
        header.dport = is_reply ? rds::probe_port : 0;
        rds::write_handshake(header, step[3] % 4, static_cast<kapi_u8>(step[4] % 10), step[5] % 4);
        return wire.send(header, "");
    }
    case 3: { // of another implementation, numbered, with any extension headers
        rds::Header header{};
        bool is_reply = step[2] % 2;
        header.sequence = ++sequence;
        header.sport = is_reply ? 0 : rds::probe_port;
        header.dport = is_reply ? rds::probe_port : 0;
        header.extensions[0] = 5;
        header.extensions[2] = step[3] % 12;
        std::copy(step.begin() + 4, step.end(), header.extensions + 3);
        return wire.send(header, "");
    }
    case 4: { // a small message, new or old, whole or not
        kapi_u32 length = step[2];
        sequence += step[7] % 4 ? 1 : static_cast<kapi_u64>(static_cast<signed char>(step[7]));
        rds::Header header = header_of(step, sequence, length);
        return wire.send(header, std::string(step[6] % 8 ? length : length / 2, 'x'));
    }
    case 5: { // a large one
        kapi_u32 length = 4096u * step[2];
        return wire.send(header_of(step, ++sequence, length), std::string(length, 'x'));
    }
    case 6: { // a congestion map, right or not
        rds::Header header{};
        header.length = step[2] % 8 ? rds::map_bytes : step[2];
        header.flags = rds::flag_congestion_map;
        return wire.send(header, std::string(header.length, static_cast<char>(step[3])));
    }
    case 7:
        return wire.stream.queue(step.data() + 2, 1 + step[1] % 6);
    case 8: { // any header
        rds::Header header = header_of(step, sequence, step[7] % 4 ? 0 : step[2] << 16 | step[3] << 8);
        header.flags = step[5];
        std::fill_n(header.extensions, sizeof(header.extensions), step[6]);
        return wire.send(header, "");
    }
    default:
        wire.stream.deaf = true;
        return step[2] % 2 ? wire.stream.read_on() : void();
    }
}

void RdsCourse::reload()
{
    for (auto &socket : sockets_)
        socket->close();
    if (!host_.unload_soon())
        world_.fail("the modules do not unload");
    std::uint64_t before = std::exchange(node_.faults().one_in, 0);
    if (host_.load() != 0)
        world_.fail("the modules do not load again");
    node_.faults().one_in = before;
}

void RdsCourse::step_of_world(const Step &step)
{
    sim::Network &network = world_.network();
    switch (step[0] / 4 % 8) {
    case 0:
        return network.cut(peer_, node_, step[1] % 2);
    case 1:
        network.reset(peer_, node_, static_cast<sim::Sees>(step[1] % 3));
        return;
    case 2:
        node_.faults().one_in = step[1] % 4 ? 0 : 1 + step[2] % 8;
        return;
    case 3: // the address moves away, or comes back
        return step[1] % 2 ? node_.initial_net().remove(own_) : node_.initial_net().add(own_);
    case 4: {
        rds_sysctl &sysctl = *rds_net_sysctl(host_.net().rds);
        sysctl.congestion_refresh_ms = 10u << (step[1] % 8);
        sysctl.receive_limit_factor = 2 + step[2] % 8;
        sysctl.send_limit_max = 65536u << step[2] / 8 % 8;
        sysctl.ping_enable = step[3] % 2;
        return;
    }
    case 5: {
        rds_tcp_sysctl &sysctl = *rds_tcp_net_sysctl(host_.net().tcp);
        sysctl.rds_tcp_sndbuf = static_cast<int>(4608u << (step[1] % 6));
        sysctl.rds_tcp_rcvbuf = static_cast<int>(2304u << (step[2] % 6));
        return rds_tcp_net_sysctl_changed(host_.net().tcp);
    }
    case 6:
        return step[1] % 4 ? void() : reload();
    default:
        return pause((std::uint64_t{1} << (step[1] % 14)) * 100 * sim::kMicrosecond);
    }
}

/** Time passes, in which the peer's streams send the rest. */
void RdsCourse::pause(std::uint64_t length_ns)
{
    auto wait = [](const auto &wire) { return wire->stream.has_more(); };
    unsigned slices = std::any_of(wires_.begin(), wires_.end(), wait) ? 16 : 1;
    for (unsigned i = 0; i < slices; i++) {
        world_.sleep(length_ns / slices);
        for (auto &wire : wires_)
            wire->stream.flush();
    }
    accept_all();
}

void RdsCourse::run(const std::vector<Step> &steps)
{
    if (host_.load())
        world_.fail("the modules do not load");
    listen(true);
    for (unsigned i = 0; i < kStreams; i++)
        wires_.push_back(std::make_unique<RdsWire>(peer_));
    for (unsigned i = 0; i < kSockets; i++)
        sockets_.push_back(std::make_unique<RdsSocket>(host_));
    for (const Step &step : steps) {
        switch (step[0] % 4) {
        case 0:
        case 1:
            step_of_peer(step);
            break;
        case 2:
            step_of_program(step);
            break;
        default:
            step_of_world(step);
        }
        if (step[0] % 8 == 0)
            pause(2 * sim::kMillisecond);
    }
    behave();
    wires_.clear();
    listen(false);
    if (!host_.unload_soon())
        world_.fail("the modules do not unload");
}
