// SPDX-License-Identifier: GPL-2.0
#include "scenario.h"

#include <kapi/errno.h>

#include <algorithm>
#include <map>
#include <utility>

#include "inspect.h"
#include "net/rds/uapi.h"

using namespace sim;

namespace {

constexpr kapi_u16 kFirstPort = 4000;
constexpr std::uint64_t kExcuseNs = 30 * kSecond;  // within it a sender learns that a machine started over
constexpr std::uint64_t kConvergeNs = 5 * kSecond; // for the news that a port is free
constexpr std::uint64_t kSettleNs = 120 * kSecond; // after the last fault everything arrives within this time

kapi_addr place(unsigned node, kapi_u16 port = 0)
{
    return address(("10.0.0." + std::to_string(node + 1)).c_str(), port);
}

} // namespace

Profile::Profile(Random &random)
{
    static constexpr std::size_t kLargest[] = {200, 5000, 70'000, 300'000, 1 << 20};
    nodes = random.one_in(3) ? 3 : 2;
    sockets = static_cast<unsigned>(random.between(1, 3));
    largest = kLargest[random.below(5)];
    messages = static_cast<unsigned>(largest > 100'000 ? random.between(3, 12) : random.between(10, 80));
    sndbuf = static_cast<kapi_u32>(std::max<std::size_t>(largest * 2, 8192) * random.between(1, 6));
    rcvbuf = static_cast<kapi_u32>(random.one_in(2) ? 4096 + random.below(2 * largest) : 1u << 22);
    slow_receivers = random.one_in(3);
    nonblocking = random.one_in(3);
    fault_time_ns = random.between(1, 12) * kSecond;
    faults = static_cast<unsigned>(random.one_in(5) ? 0 : random.between(1, 12));
    crashes = random.one_in(3);
    reloads = random.one_in(4);
    buffers = random.one_in(4);
    cuts = random.one_in(2);
    resets = random.one_in(2) || !(crashes || reloads || buffers || cuts);
    reset_after = random.one_in(4) ? random.between(1000, 20 * largest + 20'000) : 0;
    lose_one_in = random.one_in(5) ? static_cast<unsigned>(random.between(20, 200)) : 0;
    fail_one_in = random.one_in(5) ? random.between(50, 2000) : 0;
    zerocopy = largest <= 70'000 && random.one_in(3);
    bad_memory = random.one_in(4);
    reopens = random.one_in(4);
    if (reopens) { // much in flight whenever a socket closes
        largest = std::min<std::size_t>(largest, 5000);
        sockets = 1;
        messages = 500;
        fault_time_ns = std::min<std::uint64_t>(fault_time_ns, 2 * kSecond);
    }
    famines = random.one_in(6);
    hot = random.one_in(8);
    if (hot) { // what is on its way when the news of the full socket comes must be more than it may hold
        largest = 1 << 20;
        messages = static_cast<unsigned>(random.between(10, 20));
        sndbuf = 16u << 20;
        slow_receivers = true;
        zerocopy = false;
    }
}

std::string Profile::describe() const
{
    std::string text = std::to_string(nodes) + " nodes, " + std::to_string(sockets) + " sockets each, " +
                       std::to_string(messages) + " messages to " + std::to_string(largest) + " bytes, sndbuf " +
                       std::to_string(sndbuf) + ", rcvbuf " + std::to_string(rcvbuf) + ", " + std::to_string(faults) +
                       " faults:";
    const struct {
        bool on;
        const char *name;
    } flags[] = {{resets, "resets"}, {cuts, "cuts"}, {crashes, "crashes"}, {reloads, "reloads"},
                 {buffers, "buffer changes"}, {slow_receivers, "slow receivers"}, {nonblocking, "non-blocking"},
                 {zerocopy, "zerocopy"}, {bad_memory, "bad memory"}, {reopens, "reopens"},
                 {famines, "famines"}, {hot, "one hot socket"}};
    for (const auto &flag : flags)
        if (flag.on)
            text += std::string(" ") + flag.name;
    return text + ", reset after " + std::to_string(reset_after) + ", loss 1/" + std::to_string(lose_one_in) +
           ", no memory 1/" + std::to_string(fail_one_in);
}

/** A program with one socket: one thread sends, one receives. */
struct Scenario::Program {
    explicit Program(Machine &m, unsigned i);

    Machine &machine;
    unsigned index;
    kapi_u16 port;
    std::uint32_t identity = 0;
    RdsSocket socket;
    bool stopping = false;
    unsigned rounds_done = 0;
    TaskRef sender, receiver;
    // Not on the threads' stacks, which a crash abandons.
    std::vector<unsigned char> incoming;
    std::shared_ptr<std::vector<unsigned char>> outgoing;
    std::uint32_t next_cookie = 1;
    std::map<std::uint32_t, std::shared_ptr<std::vector<unsigned char>>> pinned; // until their cookies come back
};

struct Scenario::Machine {
    Machine(Node &n, unsigned i) : node(n), index(i), host(n) {}

    Node &node;
    unsigned index;
    RdsHost host;
    bool steady = false; // up, with its programs running, and no fault under way here
    std::vector<std::unique_ptr<Program>> programs;
};

Scenario::Program::Program(Machine &m, unsigned i)
    : machine(m), index(i), port(static_cast<kapi_u16>(kFirstPort + i)), socket(m.host)
{
}

Scenario::Scenario(std::uint64_t seed) : world_(seed), profile_(world_.random())
{
    for (unsigned i = 0; i < profile_.nodes; i++) {
        Node &node = world_.add_node(std::string("node") + std::to_string(i));
        node.initial_net().add(place(i));
        machines_.push_back(std::make_unique<Machine>(node, i));
    }
    for (auto &from : machines_)
        for (auto &to : machines_)
            if (from != to)
                world_.network().link(from->node, to->node).lose_one_in = profile_.lose_one_in;
    world_.network().reset_after_about(profile_.reset_after);
}

Scenario::~Scenario() = default;

void Scenario::in_task(Machine &machine, const char *name, std::function<void()> body)
{
    TaskRef task = world_.spawn(machine.node, name, std::move(body));
    if (!world_.run_until([&] { return task->is_done(); }, 100 * kSecond)) {
        explain();
        world_.fail("%s on node%u does not end", name, machine.index);
    }
}

void Scenario::explain()
{
    world_.print_tasks();
    for (auto &machine : machines_)
        print_connections(machine->host);
}

// ---- programs

void Scenario::start_programs(Machine &machine)
{
    for (unsigned i = 0; i < profile_.sockets; i++)
        machine.programs.push_back(std::make_unique<Program>(machine, i));
    for (auto &program : machine.programs)
        open(*program);
    for (auto &program : machine.programs)
        start(*program);
}

void Scenario::open(Program &program)
{
    Machine &machine = program.machine;
    std::uint64_t rate = std::exchange(machine.node.faults().one_in, 0);
    if (program.socket.open())
        world_.fail("a socket does not open");
    program.socket.sk().sndbuf = profile_.sndbuf;
    program.socket.sk().rcvbuf = profile_.rcvbuf;
    program.socket.sk().zerocopy = profile_.zerocopy;
    program.socket.sk().sndtimeo_ns = world_.random().one_in(2) ? KAPI_FOREVER : 300 * kMillisecond;
    program.socket.sk().rcvtimeo_ns = 200 * kMillisecond;
    if (int err = program.socket.bind(place(machine.index, program.port)))
        world_.fail("bind: %d", err);
    machine.node.faults().one_in = calm_ ? 0 : rate;
    program.identity = ledger_.opened(machine.index, program.port);
}

void Scenario::start(Program &program)
{
    Machine &machine = program.machine;
    program.stopping = false;
    program.sender = world_.spawn(machine.node, "sender", [this, p = &program] { send_loop(*p); });
    program.receiver = world_.spawn(machine.node, "receiver", [this, p = &program] { receive_loop(*p); });
}

void Scenario::stop(Program &program)
{
    program.stopping = true;
    for (Task *task : {program.sender.get(), program.receiver.get()})
        if (!task->is_done())
            world_.signal(*task);
    while (!program.sender->is_done() || !program.receiver->is_done())
        world_.sleep(kMillisecond);
    ledger_.closed(program.identity);
    program.socket.close();
    // The host may hold the pages a moment longer, as it may those of a process that died.
    for (auto &[cookie, buffer] : program.pinned)
        abandoned_.push_back(std::move(buffer));
    program.pinned.clear();
}

void Scenario::stop_programs(Machine &machine)
{
    for (auto &program : machine.programs)
        stop(*program);
    machine.programs.clear();
}

std::size_t Scenario::message_size()
{
    Random &random = world_.random();
    std::size_t most = random.one_in(3) ? profile_.largest : std::min<std::size_t>(profile_.largest, 2000);
    return sizeof(Label) + random.below(most - sizeof(Label) + 1);
}

/** Sometimes a byte of the next call's memory faults, or is slow to come. */
void Scenario::make_trouble(Program &program, std::size_t size)
{
    Random &random = world_.random();
    if (!profile_.bad_memory || !random.one_in(8))
        return;
    if (random.one_in(2)) {
        program.socket.trouble.fault_at = random.below(size);
    } else {
        program.socket.trouble.stall_at = random.below(size);
        program.socket.trouble.stall_ns = random.below(50 * kMillisecond);
    }
}

long Scenario::try_to_send(Program &program, const kapi_addr &to)
{
    Random &random = world_.random();
    auto &bytes = *program.outgoing;
    unsigned flags = profile_.nonblocking && random.one_in(2) ? RDS_ABI_MSG_DONTWAIT : 0;
    make_trouble(program, bytes.size());
    if (!profile_.zerocopy || random.one_in(2))
        return program.socket.send(bytes.data(), bytes.size(), to, flags);
    std::uint32_t cookie = program.next_cookie++;
    program.pinned[cookie] = program.outgoing;
    long result = program.socket.send_pinned(bytes.data(), bytes.size(), to, cookie, flags);
    if (result < 0)
        program.pinned.erase(cookie);
    return result;
}

/** False when the program is to stop. */
bool Scenario::send_one(Program &program, const Program &target)
{
    std::uint32_t node = target.machine.index, port = target.port;
    program.outgoing = std::make_shared<std::vector<unsigned char>>(
        ledger_.compose(program.identity, node, port, message_size()));
    auto size = static_cast<long>(program.outgoing->size());
    while (!program.stopping) {
        long result = try_to_send(program, place(node, static_cast<kapi_u16>(port)));
        if (result == size) {
            ledger_.sent(program.identity, node, port);
            world_.note("program sent", program.identity, node * 100000 + port);
            return true;
        }
        switch (-result) {
        case KAPI_EAGAIN:
        case KAPI_ENOBUFS:
        case KAPI_ETIMEDOUT:
        case KAPI_EINTR:
        case KAPI_ERESTARTSYS:
            break;
        case KAPI_EFAULT:
            if (profile_.bad_memory)
                break;
            [[fallthrough]];
        case KAPI_ENOMEM:
            if ((profile_.fail_one_in || profile_.famines) && -result == KAPI_ENOMEM)
                break;
            [[fallthrough]];
        default:
            world_.fail("sendmsg of %ld bytes returned %ld", size, result);
        }
        world_.sleep(world_.random().between(kMicrosecond, 5 * kMillisecond));
    }
    return false;
}

Scenario::Machine &Scenario::choose_target()
{
    return *machines_[profile_.hot ? 0 : world_.random().below(machines_.size())];
}

void Scenario::send_loop(Program &program)
{
    Random &random = world_.random();
    for (unsigned i = 0; i < profile_.messages; i++) {
        Machine &to = choose_target();
        std::size_t index = profile_.hot ? 0 : random.below(profile_.sockets);
        if (to.programs.size() == profile_.sockets && !send_one(program, *to.programs[index]))
            return;
        if (random.one_in(4))
            world_.sleep(random.below(profile_.fault_time_ns / profile_.messages * 4));
    }
    // Now that nothing breaks any more, two rounds to everybody. A sender learns by the first that a machine started
    // over, and may have to give it up: it cannot know whether the machine's former life had it.
    for (unsigned round = 1; round <= 2; round++) {
        while (calm_rounds_ < round && !program.stopping)
            world_.sleep(20 * kMillisecond);
        for (auto &to : machines_)
            for (auto &target : to->programs)
                if (!send_one(program, *target))
                    return;
        program.rounds_done = round;
    }
}

void Scenario::receive_loop(Program &program)
{
    auto &buffer = program.incoming;
    buffer.resize(1 << 20);
    while (!program.stopping) {
        std::vector<std::uint32_t> cookies;
        make_trouble(program, sizeof(Label));
        long size = program.socket.receive(buffer.data(), buffer.size(), nullptr, 0, nullptr, &cookies);
        for (std::uint32_t cookie : cookies) {
            auto pinned = program.pinned.find(cookie);
            if (pinned == program.pinned.end())
                world_.fail("cookie %u comes back twice, or was never given", cookie);
            std::fill(pinned->second->begin(), pinned->second->end(), 0xee); // nobody reads it any more
            program.pinned.erase(pinned);
        }
        if (size == 0 && !cookies.empty())
            continue;
        if (size >= 0) {
            world_.note("program received", program.identity, static_cast<std::uint64_t>(size));
            ledger_.received(program.identity, program.machine.index, program.port, buffer.data(),
                             static_cast<std::size_t>(size));
            if (profile_.slow_receivers && world_.random().one_in(profile_.hot ? 2 : 4))
                world_.sleep(world_.random().below(100 * kMillisecond));
            continue;
        }
        bool excused = size == -KAPI_EFAULT && profile_.bad_memory;
        if (size != -KAPI_ETIMEDOUT && size != -KAPI_EAGAIN && size != -KAPI_EINTR && size != -KAPI_ENOMEM && !excused)
            world_.fail("recvmsg returned %ld", size);
    }
}

// ---- machines

void Scenario::boot(Machine &machine)
{
    std::uint64_t rate = std::exchange(machine.node.faults().one_in, 0);
    if (int err = machine.host.load())
        world_.fail("the modules do not load: %d", err);
    start_programs(machine);
    machine.node.faults().one_in = calm_ ? 0 : rate;
    machine.steady = true;
}

void Scenario::crash(Machine &machine)
{
    machine.steady = false;
    outcome_.crashes++;
    for (auto &program : machine.programs) {
        ledger_.closed(program->identity);
        program->socket.forget();
        for (auto &[cookie, buffer] : program->pinned)
            abandoned_.push_back(std::move(buffer));
    }
    machine.node.crash();
    machine.host.forget();
    machine.programs.clear();
    world_.after(world_.random().below(3 * kSecond), [this, &machine] {
        world_.spawn(machine.node, "boot", [this, &machine] { boot(machine); });
    });
}

void Scenario::reload(Machine &machine)
{
    machine.steady = false;
    outcome_.reloads++;
    world_.spawn(machine.node, "reload", [this, &machine] {
        stop_programs(machine);
        if (!machine.host.unload_soon())
            world_.fail("the modules do not unload although no socket is open");
        machine.node.memory().expect_empty("an unloaded module");
        world_.sleep(world_.random().below(2 * kSecond));
        boot(machine);
    });
}

void Scenario::reopen(Machine &machine)
{
    machine.steady = false;
    world_.spawn(machine.node, "reopen", [this, &machine] {
        Program &program = *machine.programs[world_.random().below(machine.programs.size())];
        stop(program);
        if (world_.random().one_in(4))
            world_.sleep(world_.random().below(100 * kMillisecond));
        open(program);
        start(program);
        machine.steady = true;
    });
}

/** One after the other, for as long as there are faults. */
void Scenario::reopen_soon(Machine &machine)
{
    world_.after(world_.random().below(20 * kMillisecond), [this, &machine] {
        if (calm_)
            return;
        if (machine.steady)
            reopen(machine);
        reopen_soon(machine);
    });
}

void Scenario::famine(Machine &machine)
{
    machine.node.faults().one_in = world_.random().between(2, 10);
    world_.after(world_.random().below(200 * kMillisecond), [this, &machine] {
        machine.node.faults().one_in = calm_ ? 0 : profile_.fail_one_in;
    });
}

void Scenario::change_buffers(Machine &machine)
{
    world_.spawn(machine.node, "sysctl", [this, &machine] {
        rds_tcp_net *net = machine.host.net().tcp;
        rds_tcp_sysctl *values = rds_tcp_net_sysctl(net);
        values->rds_tcp_sndbuf = static_cast<int>(world_.random().between(5000, 500'000));
        values->rds_tcp_rcvbuf = static_cast<int>(world_.random().between(5000, 500'000));
        rds_tcp_net_sysctl_changed(net);
    });
}

// ---- faults

void Scenario::fault_cut(Machine &a, Machine &b)
{
    bool one_way = world_.random().one_in(3);
    world_.network().link(a.node, b.node).cut = true;
    if (!one_way)
        world_.network().link(b.node, a.node).cut = true;
    world_.note("cut", a.index, b.index);
    world_.after(world_.random().below(4 * kSecond), [this, &a, &b] { world_.network().cut(a.node, b.node, false); });
}

void Scenario::one_fault()
{
    Random &random = world_.random();
    Machine &a = *machines_[random.below(machines_.size())];
    Machine &b = *machines_[(a.index + 1 + random.below(machines_.size() - 1)) % machines_.size()];
    switch (random.below(7)) {
    case 0:
        if (profile_.resets)
            world_.network().reset(a.node, b.node, static_cast<Sees>(random.below(3)));
        break;
    case 1:
        if (profile_.cuts)
            fault_cut(a, b);
        break;
    case 2:
        if (profile_.crashes && a.steady)
            crash(a);
        break;
    case 3:
        if (profile_.reloads && a.steady)
            reload(a);
        break;
    case 4:
        if (profile_.reopens && a.steady)
            reopen(a);
        break;
    case 5:
        if (profile_.famines && a.steady)
            famine(a);
        break;
    default:
        if (profile_.buffers && a.steady)
            change_buffers(a);
        break;
    }
}

void Scenario::plan_faults()
{
    for (auto &machine : machines_) {
        machine->node.faults().one_in = profile_.fail_one_in;
        if (profile_.famines)
            famine(*machine);
        if (profile_.reopens && world_.random().one_in(2))
            reopen_soon(*machine);
    }
    for (unsigned i = 0; i < profile_.faults; i++)
        world_.after(world_.random().below(profile_.fault_time_ns), [this] { one_fault(); });
}

void Scenario::heal()
{
    calm_ = true;
    world_.network().heal_all();
    world_.network().reset_after_about(0);
    for (auto &machine : machines_)
        machine->node.faults().one_in = 0;
    auto all_steady = [this] {
        return std::all_of(machines_.begin(), machines_.end(), [](const auto &machine) { return machine->steady; });
    };
    if (!world_.run_until(all_steady, 100 * kSecond)) {
        explain();
        world_.fail("a machine does not come back");
    }
    world_.network().heal_all();
}

/** All senders do one more round, without faults, and what they send arrives (or is excused). */
void Scenario::calm_round(bool excused)
{
    calm_rounds_++;
    auto all_sent = [this] {
        for (const auto &machine : machines_)
            for (const auto &program : machine->programs)
                if (program->rounds_done < calm_rounds_)
                    return false;
        return true;
    };
    if (!world_.run_until(all_sent, kSettleNs)) {
        explain();
        world_.fail("stuck: senders do not end; missing:%s", ledger_.missing().c_str());
    }
    bool delivered = world_.run_until([this] { return ledger_.all_delivered(); }, excused ? kExcuseNs : kSettleNs);
    if (!delivered && !excused) {
        explain();
        world_.fail("stuck: not delivered:%s", ledger_.missing().c_str());
    }
}

/** Everything was received, so no socket is full; every machine must know that of every other's. */
void Scenario::expect_no_congestion()
{
    auto agreed = [this] {
        for (const auto &machine : machines_)
            for (const auto &other : machines_)
                if (full_ports(machine->host, place(other->index)))
                    return false;
        return true;
    };
    if (!world_.run_until(agreed, kConvergeNs)) {
        explain();
        world_.fail("a machine takes another's port for congested, and nothing tells it better");
    }
}

// ---- the run

void Scenario::set_up()
{
    for (auto &machine : machines_)
        in_task(*machine, "boot", [this, m = machine.get()] { boot(*m); });
}

void Scenario::shut_down()
{
    for (auto &machine : machines_) {
        in_task(*machine, "shutdown", [this, m = machine.get()] {
            stop_programs(*m);
            if (!accounts_balance(m->host))
                world_.fail("all sockets are closed, and still there are bytes in their accounts");
            if (!m->host.unload_soon())
                world_.fail("the modules do not unload although no socket is open");
        });
    }
}

Outcome Scenario::run()
{
    set_up();
    plan_faults();
    world_.run_for(profile_.fault_time_ns);
    heal();
    calm_round(outcome_.crashes || outcome_.reloads);
    calm_round(false);
    expect_no_congestion();
    shut_down();
    outcome_.hash = world_.trace().hash();
    outcome_.events = world_.trace().count();
    outcome_.messages = ledger_.total_received();
    outcome_.resets = world_.network().resets_done();
    outcome_.connections = world_.network().connections_made();
    for (auto &machine : machines_)
        outcome_.allocation_faults += machine->node.faults().failed;
    outcome_.simulated_seconds = static_cast<double>(world_.now_ns()) / 1e9;
    return outcome_;
}
