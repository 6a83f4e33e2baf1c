// SPDX-License-Identifier: GPL-2.0
#include "kcm_scenario.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

using namespace sim;

namespace {

constexpr kapi_u16 kPort = 7000;
constexpr std::uint64_t kFaultTimeNs = 600 * kSecond; // by then all have sent what they wanted to
constexpr std::uint64_t kSettleNs = 60 * kSecond;     // without faults everything arrives within this time
constexpr unsigned kCalmMessages = 5;
constexpr std::size_t kLargest = 200'000;

} // namespace

KcmProfile::KcmProfile(Random &random)
{
    static constexpr std::size_t kSizes[] = {100, 3000, 20'000, kLargest};
    plain = random.one_in(3);
    churn = random.one_in(2);
    bad_memory = random.one_in(3);
    connections = static_cast<unsigned>(random.between(1, 4));
    sockets = static_cast<unsigned>(random.between(1, 4));
    largest = kSizes[random.below(4)];
    messages = static_cast<unsigned>(random.between(10, largest > 3000 ? 40 : 200));
    sndbuf = random.one_in(2) ? 212'992 : static_cast<kapi_u32>(random.between(2000, 60'000));
    rcvbuf = random.one_in(2) ? 212'992 : static_cast<kapi_u32>(random.between(2000, 60'000));
    tcp_sndbuf = random.one_in(2) ? 0 : static_cast<kapi_u32>(random.between(4000, 60'000));
    tcp_rcvbuf = random.one_in(2) ? 0 : static_cast<kapi_u32>(random.between(4000, 60'000));
    reset_after = random.one_in(2) ? 0 : 2 * largest + random.between(1000, 300'000); // some messages get through
    fail_one_in = random.one_in(3) ? random.between(10, 300) : 0;
    steering = static_cast<int>(random.below(3));
}

std::string KcmProfile::describe() const
{
    auto number = [](const char *name, std::uint64_t value) { return std::string(", ") + name + " " + std::to_string(value); };
    return std::string(plain ? "KCM to plain TCP" : "KCM to KCM") + number("connections", connections) +
           number("sockets", sockets) + number("messages", messages) + number("of at most", largest) +
           number("sndbuf", sndbuf) + number("rcvbuf", rcvbuf) + number("TCP", tcp_sndbuf) + number("and", tcp_rcvbuf) +
           number("reset after", reset_after) + number("allocations fail one in", fail_one_in) +
           (churn ? ", churn" : "") + (bad_memory ? ", bad memory" : "");
}

/** A program with a KCM socket: one thread sends, one receives. */
struct KcmScenario::Program {
    explicit Program(KcmHost &host) : socket(host) {}
    KcmSocket socket;
    std::uint32_t sender = 0;
    std::uint64_t place = 0;
    bool stopping = false;
    TaskRef sending, receiving;
};

/** A machine with its programs. The first one has its socket all the time. */
struct KcmScenario::Side {
    explicit Side(Node &node) : node(node), host(node) {}
    Node &node;
    KcmHost host;
    int filter = -1;
    std::vector<std::unique_ptr<Program>> programs;
    std::vector<TaskRef> tasks; // that end when all is over
};

KcmScenario::KcmScenario(std::uint64_t seed) : world_(seed), profile_(world_.random())
{
    a_ = std::make_unique<Side>(world_.add_node("a"));
    b_ = std::make_unique<Side>(world_.add_node("b"));
    a_->node.initial_net().add(address("10.0.0.1"));
    b_->node.initial_net().add(address("10.0.0.2"));
    world_.network().reset_after_about(profile_.reset_after);
}

KcmScenario::~KcmScenario() = default;

void KcmScenario::fail(const std::string &why)
{
    world_.print_tasks();
    world_.fail("%s", why.c_str());
}

TaskRef KcmScenario::spawn(Side &side, const char *name, std::function<void()> body)
{
    return side.tasks.emplace_back(world_.spawn(side.node, name, std::move(body)));
}

void KcmScenario::in_task(Node &node, const char *name, std::function<void()> body)
{
    TaskRef task = world_.spawn(node, name, std::move(body));
    if (!world_.run_until([&] { return task->is_done(); }, 4 * kSettleNs))
        fail(std::string(name) + " on " + node.name() + " does not end");
}

// ---- programs

std::unique_ptr<KcmScenario::Program> KcmScenario::new_program(Side &side, KcmSocket *sibling)
{
    auto program = std::make_unique<Program>(side.host);
    if (sibling ? program->socket.open_as_clone(*sibling) : program->socket.open())
        return nullptr;
    kapi_sk &sk = program->socket.sk();
    sk.sndbuf = profile_.sndbuf;
    sk.rcvbuf = profile_.rcvbuf;
    sk.sndtimeo_ns = sk.rcvtimeo_ns = 100 * kMillisecond;
    program->socket.set_option(KCM_ABI_RECV_CONNECTION, 1);
    program->sender = next_sender_++;
    program->place = next_place_++;
    return program;
}

void KcmScenario::open(Side &side)
{
    if (side.host.load())
        fail("the module does not load");
    side.filter = program_length_filter();
    for (unsigned i = 0; i < profile_.sockets; i++) {
        side.programs.push_back(new_program(side, i ? &side.programs[0]->socket : nullptr));
        start(side, *side.programs.back());
    }
    KcmSocket &first = side.programs[0]->socket;
    first.set_option(KCM_ABI_MAX_MESSAGE, static_cast<int>(kLargest));
    first.set_option(KCM_ABI_STEERING, profile_.steering);
    side.node.faults().one_in = profile_.fail_one_in;
    if (profile_.churn)
        spawn(side, "churn", [this, &side] { churn_loop(side); });
}

void KcmScenario::start(Side &side, Program &program)
{
    senders_++;
    program.sending = world_.spawn(side.node, "sender", [this, &side, &program] { send_loop(side, program); });
    program.receiving = world_.spawn(side.node, "receiver", [this, &program] { receive_loop(program); });
}

/** From a task of its machine. */
void KcmScenario::stop(Program &program)
{
    program.stopping = true;
    while (!program.sending->is_done() || !program.receiving->is_done())
        world_.sleep(kMillisecond);
    program.socket.close();
}

std::size_t KcmScenario::size()
{
    Random &random = world_.random();
    std::size_t most = random.one_in(3) ? profile_.largest : std::min<std::size_t>(profile_.largest, 500);
    return KcmLedger::smallest + random.below(most - KcmLedger::smallest + 1);
}

/** False when the program is to stop. */
bool KcmScenario::send_part(Program &program, const unsigned char *bytes, std::size_t size, unsigned flags)
{
    Random &random = world_.random();
    while (!program.stopping) {
        if (profile_.bad_memory && !calm_ && size && random.one_in(8)) {
            program.socket.trouble.fault_at = random.one_in(2) ? random.below(size) : kapi_msg::never;
            program.socket.trouble.stall_at = random.below(size);
            program.socket.trouble.stall_ns = random.below(20 * kMillisecond);
        }
        long result = program.socket.send(bytes, size, flags | (random.one_in(2) ? KCM_ABI_MSG_DONTWAIT : 0));
        if (result == static_cast<long>(size))
            return true;
        bool excused = (result == -KAPI_EFAULT && profile_.bad_memory) || may_break();
        if (result >= 0 || (result != -KAPI_EAGAIN && !excused))
            fail("sendmsg of " + std::to_string(size) + " bytes returned " + std::to_string(result));
        world_.sleep(random.between(kMicrosecond, 2 * kMillisecond));
    }
    return false;
}

/** In one call or in several; sometimes held back with those that follow. */
void KcmScenario::send_one(Side &side, Program &program)
{
    Random &random = world_.random();
    auto bytes = ledger_.compose(program.sender, size());
    std::size_t parts = random.one_in(4) ? random.between(2, 60) : 1, at = 0;
    std::size_t step = std::max<std::size_t>(bytes.size() / parts, 1);
    for (; at + step < bytes.size(); at += step)
        if (!send_part(program, bytes.data() + at, step, KCM_ABI_MSG_MORE))
            return;
    unsigned batch = random.one_in(4) ? KCM_ABI_MSG_BATCH : 0;
    if (!send_part(program, bytes.data() + at, bytes.size() - at, batch))
        return;
    ledger_.sent(program.sender);
    world_.note("program sent", side.node.index(), program.sender);
}

void KcmScenario::send_loop(Side &side, Program &program)
{
    Random &random = world_.random();
    for (unsigned i = 0; i < profile_.messages && !program.stopping; i++) {
        send_one(side, program);
        if (random.one_in(4))
            world_.sleep(random.below(20 * kMillisecond));
    }
    send_part(program, nullptr, 0, 0); // the end of a batch
    done_++;
    while (!calm_ && !program.stopping)
        world_.sleep(10 * kMillisecond);
    for (unsigned i = 0; i < kCalmMessages && !program.stopping; i++)
        send_one(side, program);
    send_part(program, nullptr, 0, 0);
    calm_done_++;
}

void KcmScenario::receive_loop(Program &program)
{
    Random &random = world_.random();
    std::vector<unsigned char> bytes(kLargest + 1);
    while (!program.stopping) {
        if (profile_.bad_memory && !calm_ && random.one_in(8))
            program.socket.trouble.fault_at = random.below(KcmLedger::smallest);
        unsigned flags = 0;
        std::uint64_t connection = 0;
        bool peek = random.one_in(8);
        long size = program.socket.receive(bytes.data(), bytes.size(), peek ? KCM_ABI_MSG_PEEK : 0, &flags, &connection);
        if (size < 0) {
            bool excused = (size == -KAPI_EFAULT && profile_.bad_memory) || may_break();
            if (size != -KAPI_EAGAIN && !excused)
                fail("recvmsg returned " + std::to_string(size));
            continue;
        }
        if (peek)
            continue;
        if (flags != KCM_ABI_MSG_EOR || !connection)
            fail("a message arrived with flags " + std::to_string(flags));
        world_.note("program received", program.sender, static_cast<std::uint64_t>(size));
        ledger_.received(program.place << 32 | connection, !profile_.churn, bytes.data(), static_cast<std::size_t>(size));
        if (random.one_in(16))
            world_.sleep(random.below(10 * kMillisecond));
    }
}

// ---- connections

void KcmScenario::attach(Side &side, int fd)
{
    while (int err = side.programs[0]->socket.attach(fd, side.filter)) {
        if (err == -KAPI_EOPNOTSUPP && may_break())
            return; // it is reset already
        if (err != -KAPI_ENOMEM)
            fail("attach: " + std::to_string(err));
        world_.sleep(kMillisecond);
    }
}

/** False when it was not attached. */
bool KcmScenario::unattach(Side &side, int fd)
{
    int err;
    while ((err = side.programs[0]->socket.unattach(fd)) == -KAPI_EAGAIN)
        ;
    if (err && err != -KAPI_ENOENT)
        fail("unattach: " + std::to_string(err));
    return !err;
}

/** A connection of KCM, until it breaks or all is over. */
void KcmScenario::serve(Side &side, int fd)
{
    Random &random = world_.random();
    kapi_u16 port = program_socket_of(fd).tcb->local.port, peer = program_socket_of(fd).tcb->remote.port;
    attach(side, fd);
    auto is_dead = [&] {
        if (program_poll(fd) & (KAPI_ERR | KAPI_HUP))
            return true;
        for (const auto &row : side.programs[0]->socket.connections()) // a sender may have been told instead of us
            if (row.local_port == port && row.remote_port == peer)
                return row.error != 0;
        return false;
    };
    while (!over_ && !is_dead()) {
        world_.sleep(random.below(20 * kMillisecond));
        if (profile_.churn && !calm_ && random.one_in(20) && unattach(side, fd))
            attach(side, fd);
    }
    unattach(side, fd);
    program_close(fd);
}

void KcmScenario::connect_loop(Side &side)
{
    while (!over_) {
        int fd = program_connect(side.node.initial_net(), address("10.0.0.1"), address("10.0.0.2", kPort));
        if (fd < 0) {
            world_.sleep(10 * kMillisecond);
            continue;
        }
        program_set_buffers(fd, profile_.tcp_sndbuf, profile_.tcp_rcvbuf);
        serve(side, fd);
    }
}

void KcmScenario::accept_loop(Side &side)
{
    for (;;) {
        int fd = program_accept(listener_, profile_.tcp_rcvbuf);
        if (over_)
            return program_close(fd);
        program_set_buffers(fd, profile_.tcp_sndbuf, 0);
        spawn(side, "connection", [this, &side, fd] { profile_.plain ? serve_plain(fd) : serve(side, fd); });
    }
}

/** The other end without KCM. */
void KcmScenario::serve_plain(int fd)
{
    std::uint32_t sender = next_sender_++;
    TaskRef writer = world_.spawn(*Node::current(), "writer", [this, fd, sender] { write_frames(fd, sender); });
    read_frames(fd, next_place_++ << 32);
    while (!writer->is_done())
        world_.sleep(kMillisecond);
    program_close(fd);
}

/** Up to the end of the connection, which is between two messages unless it breaks. */
void KcmScenario::read_frames(int fd, std::uint64_t place)
{
    std::vector<unsigned char> frame;
    std::size_t wanted = 4;
    for (;;) {
        std::size_t have = frame.size();
        frame.resize(wanted);
        long got = program_read(fd, frame.data() + have, wanted - have);
        if (got <= 0) {
            if (got == 0 && have && !over_)
                fail("a connection ended within a message, and nobody was told");
            return;
        }
        frame.resize(have + static_cast<std::size_t>(got));
        if (frame.size() < wanted)
            continue;
        std::size_t size = 4;
        for (unsigned i = 0; i < 4; i++)
            size += std::size_t{frame[i]} << (24 - 8 * i);
        if (size > kLargest)
            fail("the peer is out of frame");
        if (frame.size() < size) {
            wanted = size;
            continue;
        }
        ledger_.received(place, true, frame.data(), frame.size());
        frame.clear();
        wanted = 4;
    }
}

void KcmScenario::write_frames(int fd, std::uint32_t sender)
{
    Random &random = world_.random();
    for (unsigned i = 0; !over_ && !(program_poll(fd) & KAPI_HUP);) {
        if (i >= profile_.messages + (calm_ ? kCalmMessages : 0)) {
            world_.sleep(10 * kMillisecond);
            continue;
        }
        i++;
        auto bytes = ledger_.compose(sender, size());
        for (std::size_t at = 0; at < bytes.size();) {
            std::size_t part = std::min<std::size_t>(1 + random.below(random.one_in(2) ? 20 : 20'000), bytes.size() - at);
            long written = program_write(fd, bytes.data() + at, part);
            if (written < 0)
                return;
            at += static_cast<std::size_t>(written);
            if (random.one_in(8))
                world_.sleep(random.below(kMillisecond));
        }
        ledger_.sent(sender);
    }
}

// ---- what happens meanwhile

void KcmScenario::churn_loop(Side &side)
{
    Random &random = world_.random();
    while (!calm_) {
        world_.sleep(random.below(30 * kMillisecond));
        std::size_t which = random.below(side.programs.size());
        if (which == 0) {
            if (side.programs.size() < 6)
                if (auto made = new_program(side, &side.programs[0]->socket)) {
                    side.programs.push_back(std::move(made));
                    start(side, *side.programs.back());
                }
        } else if (random.one_in(2)) {
            stop(*side.programs[which]);
            side.programs.erase(side.programs.begin() + static_cast<std::ptrdiff_t>(which));
        } else {
            side.programs[which]->socket.set_option(KCM_ABI_RECV_DISABLE, random.one_in(2));
        }
    }
    for (auto &program : side.programs)
        program->socket.set_option(KCM_ABI_RECV_DISABLE, 0);
}

void KcmScenario::close_side(Side &side)
{
    for (auto &program : side.programs)
        stop(*program);
    side.programs.clear();
    if (side.filter >= 0)
        program_close(side.filter);
    if (side.host.is_loaded() && !side.host.unload_soon(2 * kSettleNs))
        fail("the module does not unload although no socket is open");
}

Outcome KcmScenario::run()
{
    bool excused = profile_.reset_after || profile_.fail_one_in;
    in_task(a_->node, "boot", [this] { open(*a_); });
    in_task(b_->node, "boot", [this] {
        if (!profile_.plain)
            open(*b_);
        std::uint64_t rate = std::exchange(b_->node.faults().one_in, 0);
        listener_ = program_listen(b_->node.initial_net(), address("::", kPort));
        b_->node.faults().one_in = rate;
    });
    spawn(*b_, "accept", [this] { accept_loop(*b_); });
    for (unsigned i = 0; i < profile_.connections; i++)
        spawn(*a_, "connection", [this] { connect_loop(*a_); });
    if (!world_.run_until([this] { return done_ == senders_; }, kFaultTimeNs))
        fail("stuck: senders do not end");

    a_->node.faults().one_in = b_->node.faults().one_in = 0;
    world_.network().reset_after_about(0);
    for (const TcbRef &tcb : world_.network().tcbs())
        tcb->reset_budget = 0;
    if (excused) { // what is half open does not stay so
        world_.network().reset(a_->node, b_->node, Sees::both);
        world_.network().reset(b_->node, a_->node, Sees::both);
        world_.run_for(5 * kSecond);
    }
    ledger_.begin_calm();
    calm_ = true;
    auto arrived = [&] { return calm_done_ == senders_ && ledger_.all_received(excused); };
    if (!world_.run_until(arrived, kSettleNs))
        fail("stuck: not received:" + ledger_.missing(excused));

    over_ = true;
    in_task(b_->node, "end", [this] {
        // The loop that accepts waits for one more.
        world_.sleep(kSecond);
    });
    auto connections_ended = [this] {
        return std::all_of(a_->tasks.begin(), a_->tasks.end(), [](const TaskRef &task) { return task->is_done(); });
    };
    if (!world_.run_until(connections_ended, kSettleNs))
        fail("stuck: connections do not end");
    in_task(a_->node, "last caller", [this] {
        int fd = program_connect(a_->node.initial_net(), address("10.0.0.1"), address("10.0.0.2", kPort));
        if (fd >= 0)
            program_close(fd);
    });
    auto all_ended = [this] {
        return std::all_of(b_->tasks.begin(), b_->tasks.end(), [](const TaskRef &task) { return task->is_done(); });
    };
    if (!world_.run_until(all_ended, kSettleNs))
        fail("stuck: accepted connections do not end");
    in_task(a_->node, "shutdown", [this] { close_side(*a_); });
    in_task(b_->node, "shutdown", [this] {
        program_unlisten(listener_);
        close_side(*b_);
    });
    world_.run_for(200 * kSecond); // TCP's last packets

    Outcome outcome{};
    outcome.hash = world_.trace().hash();
    outcome.events = world_.trace().count();
    outcome.messages = ledger_.total();
    outcome.resets = world_.network().resets_done();
    outcome.connections = world_.network().connections_made();
    outcome.allocation_faults = a_->node.faults().failed + b_->node.faults().failed;
    outcome.simulated_seconds = static_cast<double>(world_.now_ns()) / 1e9;
    return outcome;
}
