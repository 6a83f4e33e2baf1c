// SPDX-License-Identifier: GPL-2.0
// A peer that sends a KCM socket any stream, in pieces of any size, to a parser program that returns lengths of every
// kind. Received messages must match the program, and the rest is given back: together
// they are the stream, independent of its pieces.
#include <kapi/errno.h>
#include <kapi/sim/sim.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "selftests/sim/kcm_host.h"

namespace {

constexpr kapi_u16 kPort = 7000;

/** The parser program: its result depends on the first byte of a message. */
kapi_s32 length_of(const unsigned char *bytes, std::size_t size)
{
    if (!size)
        return 0;
    unsigned kind = bytes[0];
    if (kind < 180)
        return static_cast<kapi_s32>(1 + kind);
    if (kind < 240) { // a header of this size, whose last byte is the payload's length
        std::size_t header = 2 + (kind - 180) * 3;
        return size < header ? 0 : static_cast<kapi_s32>(header + bytes[header - 1] * 16u);
    }
    if (kind < 248)
        return -static_cast<kapi_s32>(kind - 239);
    return kind < 252 ? 0 : INT32_MAX;
}

/** The lengths of the whole messages that the stream begins with, as found in the complete stream. */
std::vector<std::size_t> messages_of(const std::string &stream)
{
    std::vector<std::size_t> lengths;
    for (std::size_t at = 0; at < stream.size();) {
        auto left = stream.size() - at;
        kapi_s32 length = length_of(reinterpret_cast<const unsigned char *>(stream.data()) + at, left);
        if (length <= 0 || static_cast<std::size_t>(length) > left)
            break;
        lengths.push_back(static_cast<std::size_t>(length));
        at += static_cast<std::size_t>(length);
    }
    return lengths;
}

/** One run: its input and its result. */
struct Run {
    sim::World &world;
    sim::Node &peer;
    KcmHost host;
    std::string stream;
    std::vector<std::size_t> pieces;
    bool seqpacket;
    std::size_t read_size; // of a call on SOCK_SEQPACKET

    std::string received;
    std::vector<std::size_t> lengths;
    bool written = false;

    void write_all()
    {
        kapi_listener *listener = sim::program_listen(peer.initial_net(), sim::address("::", kPort));
        int fd = sim::program_accept(listener);
        sim::program_unlisten(listener);
        std::size_t at = 0;
        for (std::size_t i = 0; at < stream.size(); i++) {
            std::size_t piece = std::min(stream.size() - at, pieces.empty() ? 1000 : pieces[i % pieces.size()]);
            if (sim::program_write(fd, stream.data() + at, piece) != static_cast<long>(piece))
                world.fail("the peer cannot write");
            at += piece;
            world.sleep(100 * sim::kMicrosecond);
        }
        written = true;
        world.sleep(sim::kSecond);
        sim::program_close(fd);
    }
    /** Receives everything. */
    void receive_all(KcmSocket &socket)
    {
        static thread_local char buffer[1 << 16];
        std::size_t message = 0;
        for (;;) {
            unsigned flags = 0;
            long got = socket.receive(buffer, seqpacket ? read_size : sizeof(buffer), KCM_ABI_MSG_DONTWAIT, &flags);
            if (got < 0)
                return; // nothing, or the connection's error, after which more may follow
            received.append(buffer, static_cast<std::size_t>(got));
            message += static_cast<std::size_t>(got);
            if (!(flags & KCM_ABI_MSG_EOR))
                continue;
            lengths.push_back(message);
            message = 0;
        }
    }
    void victim()
    {
        if (host.load())
            world.fail("the module does not load");
        sim::Node &node = host.node();
        int fd = -1;
        while (fd < 0) { // until the peer listens
            fd = sim::program_connect(node.initial_net(), sim::address("10.0.0.1"), sim::address("10.0.0.2", kPort));
            world.sleep(sim::kMillisecond);
        }
        int filter = sim::program_filter(length_of);
        KcmSocket socket(host);
        if (socket.open(seqpacket ? KCM_ABI_SOCK_SEQPACKET : KCM_ABI_SOCK_DGRAM) || socket.attach(fd, filter))
            world.fail("the socket cannot be attached");
        while (!written) {
            receive_all(socket);
            world.sleep(sim::kMillisecond);
        }
        world.sleep(100 * sim::kMillisecond);
        for (int i = 0; i < 3; i++) // an error is reported once
            receive_all(socket);
        if (socket.unattach(fd))
            world.fail("the socket cannot be unattached");
        std::string rest(stream.size() + 1, '\0');
        std::size_t have = 0;
        for (long got; (got = sim::program_read(fd, rest.data() + have, rest.size() - have, sim::Wait::no)) > 0;)
            have += static_cast<std::size_t>(got);
        rest.resize(have);
        judge(rest);
        socket.close();
        sim::program_close(filter);
        sim::program_close(fd);
        if (!host.unload_soon())
            world.fail("the module does not unload");
    }
    void judge(const std::string &rest)
    {
        if (lengths != messages_of(stream))
            world.fail("messages that differ from the program's");
        if (received + rest != stream)
            world.fail("received and returned data are not the stream");
    }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    if (size < 4)
        return 0;
    // Three bytes of options, then the sizes of pieces up to a zero, then the stream.
    sim::World world(size);
    sim::Node &node = world.add_node("node");
    sim::Node &peer = world.add_node("peer");
    node.initial_net().add(sim::address("10.0.0.1"));
    peer.initial_net().add(sim::address("10.0.0.2"));
    Run run{.world = world, .peer = peer, .host = KcmHost(node), .stream = {}, .pieces = {},
            .seqpacket = (data[0] & 1) != 0, .read_size = 1 + data[1] * 7u, .received = {}, .lengths = {}};
    std::size_t at = 3;
    for (; at < size && data[at] && run.pieces.size() < 32; at++)
        run.pieces.push_back(data[at] < 128 ? data[at] : (data[at] - 127) * 50u);
    // Few bytes make a long stream, so that messages are whole.
    for (std::size_t i = std::min(at + 1, size); i < size; i++) {
        run.stream.push_back(static_cast<char>(data[i]));
        run.stream.append(data[2] % 64, static_cast<char>(data[i] ^ i));
    }
    auto writer = world.spawn(peer, "peer", [&] { run.write_all(); });
    auto victim = world.spawn(node, "victim", [&] { run.victim(); });
    if (!world.run_until([&] { return victim->is_done() && writer->is_done(); }, 600 * sim::kSecond))
        world.fail("stuck");
    world.run_for(100 * sim::kSecond); // TCP ends
    return 0;
}
