// SPDX-License-Identifier: GPL-2.0
// A peer and a program, step by step: streams on any path, handshakes, messages, maps, resets, pauses, calls on sockets,
// links and memory that fail. Each step is eight bytes: the action, and seven of parameters; the first eight choose the larger
// address and the seed. At the end the peer behaves correctly, and
// then a message must arrive in each direction, and the modules must unload without a leak.
#include <kapi/sim/sim.h>
#include <kapi/stream.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/uapi.h"
#include "net/rds/wire.h"
#include "selftests/fuzz/steps.h"
#include "selftests/sim/inspect.h"
#include "selftests/sim/rds_host.h"
#include "selftests/sim/wire_peer.h"

namespace {

constexpr unsigned kStreams = 8, kSockets = 3;
constexpr kapi_u16 kRdsPort = 16385, kPeersPort = 500, kLastPort = 777;

/** One stream of the peer, and its received data. */
struct Wire {
    explicit Wire(sim::Node &node) : stream(node) {}

    void begin()
    {
        stream.deaf = false;
        probes = answers = texts = 0;
    }
    void count_received()
    {
        for (const WireStream::Received &arrived : stream.take()) {
            auto kind = rds::classify(arrived.header);
            if (!kind)
                sim::world().fail("received invalid data");
            probes += *kind == rds::MessageKind::probe;
            answers += *kind == rds::MessageKind::probe_reply;
            texts += kapi_u16{arrived.header.dport} == kLastPort;
        }
    }
    void send(const rds::Header &header, const std::string &payload)
    {
        std::string all(reinterpret_cast<const char *>(&header), sizeof(header));
        all += payload;
        stream.queue(all.data(), all.size());
    }

    WireStream stream;
    unsigned probes = 0, answers = 0, texts = 0; // probes: not answered yet
};

/** Both machines, and the steps. */
class Course {
public:
    Course(sim::World &world, bool victim_is_larger)
        : world_(world), peer_(world.add_node("peer")), node_(world.add_node("victim")), host_(node_),
          peers_(sim::address(victim_is_larger ? "10.0.0.1" : "10.0.0.3")), own_(sim::address("10.0.0.2")),
          peer_opens_(victim_is_larger)
    {
        peer_.initial_net().add(peers_);
        node_.initial_net().add(own_);
    }

    sim::Node &node() { return node_; }
    void run(const std::vector<Step> &steps);

private:
    kapi_addr at(const kapi_addr &addr, kapi_u16 port) const
    {
        kapi_addr result = addr;
        result.port = port;
        return result;
    }
    void listen(bool on);
    void accept_all();
    void step_of_peer(const Step &step);
    void step_of_program(const Step &step);
    void step_of_world(const Step &step);
    void pause(std::uint64_t length_ns);
    void call(RdsSocket &socket, const Step &step);
    void reload();
    void open(RdsSocket &socket, kapi_u16 port);
    void behave();
    void connect(Wire &wire, unsigned path);
    void shake_hands(Wire &wire, unsigned path);
    bool has_received(RdsSocket &socket);
    void check_run(std::size_t room, const RdsSocket::Run &run);

    sim::World &world_;
    sim::Node &peer_, &node_;
    RdsHost host_;
    const kapi_addr peers_, own_;
    const bool peer_opens_;
    kapi_listener *listener_ = nullptr;
    std::vector<std::unique_ptr<Wire>> wires_;
    std::vector<std::unique_ptr<RdsSocket>> sockets_;
    std::array<kapi_u64, kStreams> sequence_{};
    kapi_u16 next_port_ = 30000; // a multiple of 8
    std::vector<unsigned char> memory_ = std::vector<unsigned char>(1 << 20);
};

// ---- the peer

void Course::listen(bool on)
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

void Course::accept_all()
{
    sim::NodeScope scope(peer_);
    kapi_stream *stream;
    while (kapi_accept(listener_, &stream) == 0) {
        kapi_addr local, remote;
        kapi_stream_addrs(stream, &local, &remote);
        Wire &wire = *wires_[remote.port % kStreams];
        wire.begin();
        wire.stream.adopt(stream);
    }
}

/** From its own port, which encodes the path. */
void Course::connect(Wire &wire, unsigned path)
{
    next_port_ = static_cast<kapi_u16>(next_port_ + 8);
    wire.begin();
    wire.stream.start(at(peers_, static_cast<kapi_u16>(next_port_ + path)), at(own_, kRdsPort));
}

rds::Header header_of(const Step &step, kapi_u64 sequence, kapi_u32 length)
{
    rds::Header header{};
    header.sequence = sequence;
    header.length = length;
    header.sport = static_cast<kapi_u16>(step[3] % 4 ? kPeersPort : step[3] % 3);
    header.dport = static_cast<kapi_u16>(step[4] % 8 > 2 ? 1000 + step[4] % kSockets : step[4] % 3);
    header.flags = step[5] % 4 ? 0 : static_cast<kapi_u8>(step[6]);
    return header;
}

void Course::step_of_peer(const Step &step)
{
    Wire &wire = *wires_[step[1] % kStreams];
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

// ---- the program

void Course::open(RdsSocket &socket, kapi_u16 port)
{
    if (socket.open() != 0)
        return;
    socket.bind(at(own_, port));
    socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 20 * sim::kMillisecond;
}

/** The lengths are those of what was returned. */
void Course::check_run(std::size_t room, const RdsSocket::Run &run)
{
    std::uint64_t sum = 0;
    for (std::uint32_t length : run.lengths)
        sum += length;
    if (run.lengths.size() > 1 && sum > room)
        world_.fail("a run of %llu bytes is in a buffer of %zu", static_cast<unsigned long long>(sum), room);
    if (!run.lengths.empty() && sum != static_cast<std::uint64_t>(run.result))
        world_.fail("the lengths of a run are not of its %ld bytes", run.result);
}

void Course::call(RdsSocket &socket, const Step &step)
{
    unsigned flags = step[2] % 2 ? RDS_ABI_MSG_DONTWAIT : 0;
    std::size_t size = step[3] % 4 ? step[4] : 4096u * step[4];
    kapi_addr to = at(step[5] % 8 ? peers_ : own_, step[5] % 16 == 1 ? 0 : static_cast<kapi_u16>(kPeersPort + step[5] % 3));
    SocketName name(to);
    switch (step[0] / 4 % 8) {
    case 0:
    case 1:
        if (step[6] % 8 == 0)
            socket.trouble.fault_at = size / 2;
        if (step[7] % 2) {
            std::vector<std::uint32_t> lengths(1 + step[7] / 2, static_cast<std::uint32_t>(size / (1 + step[7] / 2)));
            lengths[0] += static_cast<std::uint32_t>(size % lengths.size());
            socket.send_each(memory_.data(), size, to, lengths, flags);
            return;
        }
        socket.send(memory_.data(), size, to, flags);
        return;
    case 2: {
        socket.sk().zerocopy = true;
        socket.send_pinned(memory_.data(), size, to, step[6], flags);
        return;
    }
    case 3: {
        if (step[6] % 8 == 0)
            socket.trouble.fault_at = step[7] * 16u;
        check_run(size, socket.receive_run(memory_.data(), size, step[6] % 2 ? flags : step[7], step[5] * 2u));
        return;
    }
    case 4:
        socket.close();
        return open(socket, static_cast<kapi_u16>(1000 + step[1] % kSockets));
    case 5:
        socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, name.size);
        return;
    case 6: {
        int value = step[2] % 2, length = 1 << (step[4] % 16), lengths = step[3] % 2;
        socket.set_option(RDS_ABI_RECV_LENGTHS, &lengths, sizeof(lengths));
        socket.set_option(RDS_ABI_CONG_MONITOR, &value, sizeof(value));
        socket.poll();
        (void)socket.get_option(RDS_ABI_INFO_FIRST + step[3] % 18, memory_.data(), &length);
        return;
    }
    default:
        socket.sk().rcvbuf = 256u << (step[2] % 14);
        socket.sk().sndbuf = 256u << (step[3] % 14);
    }
}

void Course::step_of_program(const Step &step)
{
    RdsSocket &socket = *sockets_[step[1] % kSockets];
    if (!socket.is_open())
        open(socket, static_cast<kapi_u16>(1000 + step[1] % kSockets));
    if (socket.is_open())
        call(socket, step);
}

// ---- everything else

void Course::reload()
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

void Course::step_of_world(const Step &step)
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
void Course::pause(std::uint64_t length_ns)
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

// ---- the end

/** A hawser peer's data on each stream: its name, an answer, and the congestion map. */
void Course::shake_hands(Wire &wire, unsigned path)
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

bool Course::has_received(RdsSocket &socket)
{
    char text[32];
    return socket.receive(text, sizeof(text), nullptr, RDS_ABI_MSG_DONTWAIT) == 4 && !std::memcmp(text, "last", 4);
}

/** After any history: a correct peer can send and receive. */
void Course::behave()
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
            Wire &wire = *wires_[path];
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

void Course::run(const std::vector<Step> &steps)
{
    if (host_.load())
        world_.fail("the modules do not load");
    listen(true);
    for (unsigned i = 0; i < kStreams; i++)
        wires_.push_back(std::make_unique<Wire>(peer_));
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

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    std::vector<Step> steps = steps_of(data, size);
    if (steps.empty())
        return 0;
    Step first = steps.front();
    steps.erase(steps.begin());
    sim::World world(first[1]);
    Course course(world, first[0] % 2);
    auto task = world.spawn(course.node(), "course", [&] { course.run(steps); });
    if (!world.run_until([&] { return task->is_done(); }, 1200 * sim::kSecond))
        world.fail("stuck");
    world.run_for(sim::kSecond); // the last packets arrive
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t max_size, unsigned int seed)
{
    return mutate_steps(data, size, max_size, seed);
}
