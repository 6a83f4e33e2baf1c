// SPDX-License-Identifier: GPL-2.0
// The end of a course: the peer behaves.
#include "selftests/fuzz/rds_course.h"

#include <cstring>

#include "net/rds/uapi.h"
#include "selftests/sim/inspect.h"

/** A hawser peer's data on each stream: its name, an answer, and the congestion map. */
void RdsCourse::shake_hands(RdsWire &wire, unsigned path)
{
    constexpr kapi_u32 generation = 4711, memory = 4712;
    wire.count_received();
    for (; wire.probes; wire.probes--) {
        for (bool is_reply : {false, true}) {
            rds::Header header{};
            header.sport = is_reply ? 0 : rds::probe_port;
            header.dport = is_reply ? rds::probe_port : 0;
            rds::write_handshake(header, generation, static_cast<kapi_u8>(path), memory);
            wire.send(header, "");
        }
        rds::Header map{}; // no port is full
        map.length = rds::map_bytes;
        map.flags = rds::flag_congestion_map;
        wire.send(map, std::string(rds::map_bytes, '\0'));
    }
}

bool RdsCourse::has_received(RdsSocket &socket)
{
    char text[32];
    return socket.receive(text, sizeof(text), nullptr, RDS_ABI_MSG_DONTWAIT) == 4 && !std::memcmp(text, "last", 4);
}

/** After any history: a correct peer can send and receive. */
void RdsCourse::behave()
{
    world_.network().heal_all();
    node_.faults().one_in = 0;
    node_.initial_net().remove(own_);
    node_.initial_net().add(own_);
    for (auto &socket : sockets_)
        socket->close();
    for (auto &wire : wires_)
        wire->stream.close(true);
    RdsSocket socket(host_);
    socket.open();
    if (socket.bind(at(own_, kLastPort)) != 0)
        world_.fail("the last socket is not bound");
    std::array<bool, kStreams> sent{};
    bool received = false, texts = false, written = false;
    for (int tries = 0; tries < 6000 && !(received && texts); tries++) {
        for (unsigned path = 0; path < kStreams; path++) {
            RdsWire &wire = *wires_[path];
            if (!wire.stream.is_usable() && peer_opens_ && tries % 50 == 0) {
                connect(wire, path);
                sent[path] = false;
            }
        }
        // The opener's port encodes a stream's path.
        for (unsigned i = 0; i < kStreams; i++)
            shake_hands(*wires_[i], i);
        pause(10 * sim::kMillisecond);
        for (unsigned i = 0; i < kStreams; i++) {
            wires_[i]->count_received();
            texts = texts || wires_[i]->texts != 0;
            if (!sent[i] && wires_[i]->stream.is_usable() && wires_[i]->answers) {
                rds::Header header{};
                header.sequence = 1;
                header.length = 4;
                header.sport = kLastPort;
                header.dport = kLastPort;
                wires_[i]->send(header, "last");
                sent[i] = true;
            }
        }
        // Messages to a peer of unknown kind are dropped when it turns out to be hawser.
        if (!written || tries % 500 == 0)
            written = socket.send("last", 4, at(peers_, kLastPort), RDS_ABI_MSG_DONTWAIT) == 4;
        received = received || has_received(socket);
    }
    if (!received || !texts) {
        print_connections(host_);
        world_.fail("a correct peer cannot send (%d) or receives nothing (%d)", !received, !texts);
    }
}
