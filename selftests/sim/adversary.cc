// SPDX-License-Identifier: GPL-2.0
#include "adversary.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "course.h"
#include "net/rds/tcp/net.h"

using namespace sim;

namespace {

constexpr unsigned kSpeakers = 3;
constexpr unsigned kMostActs = 400;  // more would take time and find nothing more
constexpr unsigned kFlood = 40'000; // pings
constexpr std::size_t kMostKept = 30;
constexpr std::uint64_t kPatienceNs = 200 * kMillisecond; // with a peer that does not read
constexpr std::size_t kLargestOften = 3000;

/** Bytes that fail every check. */
std::string noise(Random &random, std::size_t size)
{
    std::string bytes(size, '\0');
    for (char &byte : bytes)
        byte = static_cast<char>(random.next());
    return bytes;
}

} // namespace

/** With addresses below and above all others: the smaller of two opens the streams. */
Adversary::Adversary(Course &course, Node &node) : course_(course), node_(node), random_(course.world.random())
{
    for (const char *text : {"9.0.0.1", "9.0.0.2", "11.0.0.1", "11.0.0.2"})
        node_.initial_net().add(address(text));
}

void Adversary::start()
{
    World &world = course_.world;
    tasks_.push_back(world.spawn(node_, "adversary listens", [this] { listen(); }));
    for (unsigned i = 0; i < kSpeakers; i++)
        tasks_.push_back(world.spawn(node_, "adversary", [this] { speak(); }));
    tasks_.push_back(world.spawn(node_, "adversary answers", [this] { answer(); }));
}

void Adversary::end()
{
    World &world = course_.world;
    ending_ = true;
    auto all_done = [this] {
        return std::all_of(tasks_.begin(), tasks_.end(), [](const TaskRef &task) { return task->is_done(); });
    };
    if (!world.run_until(all_done, 60 * kSecond))
        course_.fail("the adversary does not end");
    TaskRef last = world.spawn(node_, "adversary ends", [this] {
        kept_.clear();
        kapi_listener_stop(listener_);
        kapi_listener_close(listener_);
    });
    world.run_until([&] { return last->is_done(); }, 60 * kSecond);
}

// ---- streams

void Adversary::listen()
{
    kapi_addr any = address("::", rds_tcp::rds_port);
    if (int err = kapi_listen(&node_.initial_net(), &any, 16, [](void *) {}, this, &listener_))
        course_.world.fail("the adversary cannot listen: %d", err);
}

/** To any machine, from any of its addresses and ports. */
bool Adversary::connect(Talk &talk)
{
    const Site &site = *course_.sites[random_.below(course_.sites.size())];
    kapi_addr to = site.address(rds_tcp::rds_port);
    const auto &own = node_.initial_net().addresses;
    kapi_addr from = own[2 + random_.below(own.size() - 2)].addr; // the first two are loopback
    from.port = static_cast<kapi_u16>(random_.one_in(4) ? 0 : random_.between(2000, 60000));
    return talk.stream.connect(from, to, kSecond);
}

void Adversary::speak()
{
    World &world = course_.world;
    while (!ending_ && acts_ < kMostActs) {
        auto talk = std::make_unique<Talk>(node_);
        talk->stream.deaf = random_.one_in(8);
        if (connect(*talk))
            converse(*talk);
        if (random_.one_in(4))
            keep(std::move(talk));
        else
            talk->stream.close(random_.one_in(2));
        world.sleep(random_.below(course_.profile.fault_time_ns / 20));
    }
}

/** Streams opened by others, because it has the larger address. */
void Adversary::answer()
{
    World &world = course_.world;
    while (!ending_) {
        world.sleep(random_.between(kMillisecond, 50 * kMillisecond));
        auto talk = std::make_unique<Talk>(node_);
        if (!listener_ || !talk->stream.accept(listener_))
            continue;
        if (acts_ < kMostActs)
            converse(*talk);
        if (random_.one_in(4))
            keep(std::move(talk));
    }
}

void Adversary::keep(std::unique_ptr<Talk> talk)
{
    kept_.push_back(std::move(talk));
    if (kept_.size() > kMostKept)
        kept_.pop_front();
}

void Adversary::converse(Talk &talk)
{
    talk.stream.patience_ns = kPatienceNs;
    talk.generation = static_cast<kapi_u32>(random_.next());
    talk.memory = static_cast<kapi_u32>(random_.next());
    if (random_.one_in(8))
        return; // sends nothing
    if (!random_.one_in(8))
        handshake(talk);
    if (talk.stream.deaf && random_.one_in(2)) // without a bound, the answers would fill the memory
        send_pings(talk, kFlood);
    for (auto left = random_.below(40); left && talk.stream.is_up() && !ending_; left--) {
        act(talk);
        if (random_.one_in(4))
            course_.world.sleep(random_.below(20 * kMillisecond));
    }
}

// ---- its messages

void Adversary::act(Talk &talk)
{
    using Act = void (Adversary::*)(Talk &);
    static constexpr Act kActs[] = {&Adversary::handshake, &Adversary::false_handshake, &Adversary::message,
                                    &Adversary::message,   &Adversary::message,         &Adversary::old_message,
                                    &Adversary::extensions, &Adversary::congestion_map, &Adversary::ping};
    acts_++;
    if (random_.one_in(20))
        return wrong_length(talk);
    if (random_.one_in(20))
        return garbage(talk);
    (this->*kActs[random_.below(std::size(kActs))])(talk);
}

void Adversary::send(Talk &talk, const rds::Header &header, std::size_t payload)
{
    std::string bytes = noise(random_, sizeof(header) + payload);
    std::memcpy(bytes.data(), &header, sizeof(header));
    talk.stream.send(bytes.data(), bytes.size());
}

void Adversary::handshake(Talk &talk)
{
    bool is_reply = random_.one_in(2);
    talk.stream.handshake(is_reply, talk.generation, static_cast<unsigned>(random_.below(8)), talk.memory);
}

void Adversary::false_handshake(Talk &talk)
{
    auto generation = static_cast<kapi_u32>(random_.one_in(4) ? 0 : random_.next());
    auto memory = static_cast<kapi_u32>(random_.one_in(4) ? 0 : random_.next());
    talk.stream.handshake(random_.one_in(2), generation, static_cast<unsigned>(random_.below(256)), memory);
}

/** To a program, which receives it, or to an unbound port. Not when other tests need sockets that are not full. */
void Adversary::message(Talk &talk)
{
    if (course_.calm)
        return;
    std::size_t size = random_.below(random_.one_in(20) ? rds::max_message : kLargestOften);
    rds::Header header{};
    header.sequence = talk.sequence++;
    header.ack = random_.next(); // never sent
    header.length = static_cast<kapi_u32>(size);
    header.sport = static_cast<kapi_u16>(random_.below(100));
    header.dport = static_cast<kapi_u16>(random_.one_in(4) ? random_.next() : Program::kFirstPort + random_.below(3));
    header.flags = static_cast<kapi_u8>(random_.one_in(4) ? random_.next() & ~1u : 0);
    header.credit = static_cast<kapi_u8>(random_.next());
    send(talk, header, size);
}

/** Again, or out of order. */
void Adversary::old_message(Talk &talk)
{
    kapi_u64 last = talk.sequence;
    talk.sequence = random_.one_in(4) ? random_.next() : random_.below(last + 1);
    message(talk);
    if (random_.one_in(2))
        talk.sequence = last;
}

/** The header contradicts the data, or is invalid. */
void Adversary::wrong_length(Talk &talk)
{
    rds::Header header{};
    header.sequence = talk.sequence++;
    header.dport = Program::kFirstPort;
    header.sport = 7;
    header.length = static_cast<kapi_u32>(random_.one_in(2) ? random_.next() : random_.below(rds::max_message));
    if (random_.one_in(3))
        header.flags = rds::flag_congestion_map;
    send(talk, header, random_.below(100));
}

void Adversary::extensions(Talk &talk)
{
    rds::Header header{};
    header.sequence = talk.sequence++;
    bool is_probe = random_.one_in(2);
    header.sport = is_probe ? rds::probe_port : 0;
    header.dport = is_probe ? 0 : rds::probe_port;
    for (kapi_u8 &byte : header.extensions) // one of the known types, often
        byte = static_cast<kapi_u8>(random_.one_in(2) ? random_.below(16) : random_.next());
    send(talk, header, 0);
}

void Adversary::congestion_map(Talk &talk)
{
    rds::Header header{};
    header.flags = rds::flag_congestion_map;
    header.length = rds::map_bytes;
    std::string bits = random_.one_in(2) ? noise(random_, rds::map_bytes)
                                         : std::string(rds::map_bytes, random_.one_in(2) ? '\xff' : '\0');
    talk.stream.send(&header, sizeof(header));
    talk.stream.send(bits.data(), bits.size());
}

void Adversary::ping(Talk &talk)
{
    send_pings(talk, 1);
}

void Adversary::send_pings(Talk &talk, unsigned count)
{
    rds::Header header{};
    header.sport = static_cast<kapi_u16>(random_.between(2, 1000));
    std::string pings;
    while (count--) {
        header.sequence = talk.sequence++;
        pings.append(reinterpret_cast<const char *>(&header), sizeof(header));
    }
    talk.stream.send(pings.data(), pings.size());
}

void Adversary::garbage(Talk &talk)
{
    std::string bytes = noise(random_, random_.below(300));
    talk.stream.send(bytes.data(), bytes.size());
}
