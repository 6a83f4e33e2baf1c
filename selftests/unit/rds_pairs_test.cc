// SPDX-License-Identifier: GPL-2.0
// Each public call of RDS against each other, at the same moment, on shared objects, one of the two with a fault: a failed
// allocation, memory that faults, a signal. Whatever happens to the two, a third pair of sockets exchanges its messages in
// time, both calls end, and the modules unload without leaving a byte.
#include "kapi_sim_test.h"

#include <kapi/errno.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"

namespace {

constexpr kapi_u16 kPort = 4000, kSecondPort = 4001, kHealthyPort = 5000;
constexpr std::size_t kBytes = 9000;
constexpr std::uint64_t kPatience = 100 * sim::kMillisecond; // of calls that wait
constexpr std::uint64_t kHealthyWithin = 5 * sim::kSecond;   // connections may be made again with some back-off
constexpr unsigned kHealthyMessages = 5, kTimes = 3;

enum class Fault { none, allocation, memory, signal };
constexpr Fault kFaults[] = {Fault::none, Fault::allocation, Fault::memory, Fault::signal};
const char *const kFaultNames[] = {"no fault", "a failed allocation", "memory that faults", "a signal"};

/** As a file is: closed when the last call that is in it has returned. */
class File {
public:
    explicit File(RdsHost &host) : socket(host) {}
    bool enter() { return !closing_ && (users_++, true); }
    void leave()
    {
        if (!--users_ && closing_)
            socket.close();
    }
    void close() { closing_ = true; }
    RdsSocket socket;

private:
    unsigned users_ = 0;
    bool closing_ = false;
};

class Course;
using Call = void (*)(Course &, File &);
struct Named {
    const char *name;
    Call call;
};

class Course {
public:
    explicit Course(std::uint64_t seed) : world(seed), host(a), peer_host(b)
    {
        a.initial_net().add(sim::address("10.0.0.1"));
        b.initial_net().add(sim::address("10.0.0.2"));
    }
    void run(const Named &first, const Named &second, bool same_socket, Fault fault);

    static kapi_addr here(kapi_u16 port) { return sim::address("10.0.0.1", port); }
    static kapi_addr there(kapi_u16 port) { return sim::address("10.0.0.2", port); }

    sim::World world;
    sim::Node &a = world.add_node("a"), &b = world.add_node("b");
    RdsHost host, peer_host;
    kapi_net *second_net = nullptr; // of a; null: it ended
    std::string bytes = std::string(kBytes, 'x');

private:
    sim::TaskRef program(sim::Node &node, const char *name, std::function<void()> body)
    {
        return world.spawn(node, name, std::move(body));
    }
    void finish(const sim::TaskRef &task, std::uint64_t limit_ns)
    {
        if (!world.run_until([&] { return task->is_done(); }, limit_ns))
            world.fail("%s: %s does not end in time", what_.c_str(), task->name.c_str());
    }
    void set_up();
    void use(const Named &named, File &file, Fault fault);
    sim::TaskRef healthy(RdsHost &own, const kapi_addr &from, const kapi_addr &to);
    void clean_up();

    std::unique_ptr<File> files_[2], listener_;
    unsigned bound_ = 0; // of the third pair
    std::string what_;   // this run is, for a report
};

// ---- the calls

void do_bind(Course &, File &f)
{
    f.socket.bind(Course::here(0));
}
void do_connect(Course &, File &f)
{
    f.socket.connect(Course::there(kPort));
}
void do_send(Course &c, File &f)
{
    f.socket.send(c.bytes.data(), c.bytes.size(), Course::there(kPort));
}
void do_send_pinned(Course &c, File &f)
{
    f.socket.send_pinned(c.bytes.data(), c.bytes.size(), Course::there(kPort), 7);
}
void do_loop(Course &c, File &f)
{
    f.socket.send(c.bytes.data(), c.bytes.size(), Course::here(kPort));
}
void do_receive(Course &, File &f)
{
    std::string in(kBytes, '\0');
    f.socket.receive(in.data(), in.size(), nullptr);
}
void do_peek(Course &, File &f)
{
    std::string in(kBytes, '\0');
    f.socket.receive(in.data(), in.size(), nullptr, RDS_ABI_MSG_PEEK | RDS_ABI_MSG_DONTWAIT);
}
void do_poll(Course &, File &f)
{
    f.socket.poll();
}
void do_cancel(Course &, File &f)
{
    SocketName name(Course::there(kPort));
    f.socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, name.size);
}
void do_monitor(Course &c, File &f)
{
    int on = c.world.random().one_in(2);
    f.socket.set_option(RDS_ABI_CONG_MONITOR, &on, sizeof(on));
}
void do_transport(Course &, File &f)
{
    int tcp = RDS_ABI_TRANS_TCP;
    f.socket.set_option(RDS_ABI_SO_TRANSPORT, &tcp, sizeof(tcp));
}
void do_tos(Course &, File &f)
{
    unsigned char tos = 1;
    kapi_optval value{&tos, sizeof(tos)};
    rds_socket_ioctl(f.socket.core(), RDS_ABI_SIOCRDSSETTOS, &value);
}
void do_info(Course &, File &f)
{
    std::vector<unsigned char> rows(4096);
    for (int item = RDS_ABI_INFO_FIRST; item <= RDS_ABI_INFO_LAST; item++) {
        int size = static_cast<int>(rows.size());
        f.socket.get_option(item, rows.data(), &size);
    }
}
void do_close(Course &, File &f)
{
    f.close();
}
void do_end_namespace(Course &c, File &)
{
    if (kapi_net *net = std::exchange(c.second_net, nullptr)) {
        EXPECT_TRUE(c.host.delete_nets({net}));
    }
}
void do_unload(Course &c, File &)
{
    EXPECT_FALSE(c.host.unload()); // the third pair's sockets are open
}

constexpr Named kCalls[] = {{"bind", do_bind}, {"connect", do_connect}, {"sendmsg", do_send},
                            {"sendmsg with MSG_ZEROCOPY", do_send_pinned}, {"sendmsg to this host", do_loop},
                            {"recvmsg", do_receive}, {"recvmsg with MSG_PEEK", do_peek}, {"poll", do_poll},
                            {"RDS_CANCEL_SENT_TO", do_cancel}, {"RDS_CONG_MONITOR", do_monitor},
                            {"SO_RDS_TRANSPORT", do_transport}, {"SIOCRDSSETTOS", do_tos}, {"RDS_INFO", do_info},
                            {"close", do_close}, {"the end of a namespace", do_end_namespace},
                            {"rmmod", do_unload}};

// ---- a run

void Course::set_up()
{
    auto loaded = program(b, "boot", [this] {
        ASSERT_EQ(peer_host.load(), 0);
        listener_ = std::make_unique<File>(peer_host);
        ASSERT_EQ(listener_->socket.open(), 0);
        ASSERT_EQ(listener_->socket.bind(there(kPort)), 0);
    });
    finish(loaded, sim::kSecond);
    auto ready = program(a, "boot", [this] {
        ASSERT_EQ(host.load(), 0);
        second_net = &a.add_net();
        second_net->add(sim::address("10.0.0.9"));
        ASSERT_EQ(host.add_net(*second_net), 0);
        for (auto &file : files_) {
            file = std::make_unique<File>(host);
            ASSERT_EQ(file->socket.open(), 0);
            file->socket.sk().sndtimeo_ns = file->socket.sk().rcvtimeo_ns = kPatience;
            file->socket.sk().zerocopy = true;
        }
        // One is bound and the other will be: by a call here, or not at all.
        ASSERT_EQ(files_[0]->socket.bind(here(kPort)), 0);
        if (world.random().one_in(2)) {
            ASSERT_EQ(files_[1]->socket.bind(here(kSecondPort)), 0);
        }
    });
    finish(ready, sim::kSecond);
}

/** One of the two tasks: the call, some times, the first of them with the fault. */
void Course::use(const Named &named, File &file, Fault fault)
{
    if (!file.enter())
        return;
    for (unsigned i = 0; i < kTimes; i++) {
        if (!i && fault == Fault::allocation)
            a.faults().fail_at = a.faults().count + 1 + world.random().below(8);
        if (!i && fault == Fault::memory)
            file.socket.trouble = {.fault_at = world.random().below(kBytes), .stall_at = 0,
                                   .stall_ns = world.random().below(sim::kMillisecond)};
        if (!i && fault == Fault::signal)
            world.after(world.random().below(sim::kMillisecond), [this, self = std::weak_ptr<sim::Task>(
                                                                          sim::World::current_task()->weak_from_this())] {
                if (auto task = self.lock(); task && !task->is_done())
                    world.signal(*task);
            });
        named.call(*this, file);
    }
    file.leave();
}

/** Sends its messages and gets as many. */
sim::TaskRef Course::healthy(RdsHost &own, const kapi_addr &from, const kapi_addr &to)
{
    return program(own.node(), "healthy", [this, &own, from, to] {
        RdsSocket socket(own);
        auto again = [&](const std::function<long()> &attempt) { // the allocation that fails may be one of the test
            for (long result;;) {
                if ((result = attempt()) >= 0)
                    return;
                world.sleep(sim::kMillisecond);
            }
        };
        again([&] { return socket.open(); });
        socket.sk().sndtimeo_ns = socket.sk().rcvtimeo_ns = kHealthyWithin;
        again([&] { return socket.bind(from); });
        for (bound_++; bound_ < 2;) // messages to an unbound port are dropped
            world.sleep(sim::kMillisecond);
        for (unsigned i = 0; i < kHealthyMessages; i++) {
            std::string in(kBytes, '\0');
            again([&] { return socket.send(bytes.data(), bytes.size(), to); });
            EXPECT_EQ(socket.receive(in.data(), in.size(), nullptr), static_cast<long>(kBytes));
        }
        world.sleep(kPatience); // close() would cancel what the other end has not acknowledged
    });
}

void Course::run(const Named &first, const Named &second, bool same_socket, Fault fault)
{
    what_ = std::string(first.name) + " with " + kFaultNames[static_cast<int>(fault)] + " against " + second.name;
    set_up();
    auto peer = program(b, "listener", [this] { // reads whatever comes, and sends it back
        std::string in(kBytes, '\0');
        for (kapi_addr from; listener_->socket.receive(in.data(), in.size(), &from) >= 0;)
            listener_->socket.send(in.data(), in.size(), from, RDS_ABI_MSG_DONTWAIT);
    });
    sim::TaskRef pair[] = {healthy(host, here(kHealthyPort), there(kHealthyPort)),
                           healthy(peer_host, there(kHealthyPort), here(kHealthyPort))};
    if (world.random().one_in(2))
        world.run_for(world.random().below(5 * sim::kMillisecond)); // the connection is up, or not yet
    sim::TaskRef calls[] = {
        program(a, first.name, [&] { use(first, *files_[0], fault); }),
        program(a, second.name, [&] { use(second, *files_[same_socket ? 0 : 1], Fault::none); })};
    for (auto &task : calls)
        finish(task, 2 * kTimes * kPatience + sim::kSecond);
    a.faults().fail_at = 0;
    for (auto &task : pair)
        finish(task, kHealthyWithin);
    world.signal(*peer); // it has nothing more to do
    finish(peer, sim::kSecond);
    clean_up();
}

void Course::clean_up()
{
    finish(program(a, "shutdown", [this] {
        for (auto &file : files_)
            file->socket.close();
        EXPECT_TRUE(host.unload_soon());
        for (auto &file : files_)
            file = nullptr;
    }), sim::kSecond * 10);
    finish(program(b, "shutdown", [this] {
        listener_->socket.close();
        listener_ = nullptr;
        EXPECT_TRUE(peer_host.unload_soon());
    }), sim::kSecond * 10);
}

void every_pair(Fault fault)
{
    std::uint64_t seed = 1;
    for (const Named &first : kCalls) {
        for (const Named &second : kCalls) {
            SCOPED_TRACE(std::string(first.name) + " against " + second.name);
            Course course(seed++);
            bool same_socket = course.world.random().one_in(2);
            course.run(first, second, same_socket, fault);
            if (testing::Test::HasFailure())
                return;
        }
    }
}

class RdsPairs : public testing::TestWithParam<Fault> {};

TEST_P(RdsPairs, each_call_against_each)
{
    every_pair(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Faults, RdsPairs, testing::ValuesIn(kFaults));

} // namespace
