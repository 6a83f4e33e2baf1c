// SPDX-License-Identifier: GPL-2.0
// Each public call of KCM against each other, at the same moment, on one multiplexor, one of the two with a fault: a failed
// allocation, memory that faults, a signal. One of its connections has a peer that does not read. Whatever happens to the
// two, another multiplexor exchanges its messages in time, both calls end, and the module unloads without leaving a byte.
#include "kcm_test.h"

#include <uapi/hawser_netlink.h>

#include <functional>

namespace {

constexpr std::size_t kBytes = 9000;
constexpr std::uint64_t kPatience = 100 * sim::kMillisecond; // of calls that wait
constexpr std::uint64_t kHealthyWithin = sim::kSecond;
constexpr unsigned kHealthyMessages = 5, kTimes = 3;

enum class Fault { none, allocation, memory, signal };
constexpr Fault kFaults[] = {Fault::none, Fault::allocation, Fault::memory, Fault::signal};
const char *const kFaultNames[] = {"no fault", "a failed allocation", "memory that faults", "a signal"};

/** As a file is: closed when the last call that is in it has returned. */
struct File {
    KcmSocket &socket;
    unsigned users = 0;
    bool closing = false;

    bool enter() { return !closing && (users++, true); }
    void leave()
    {
        if (!--users && closing)
            socket.close();
    }
};

class Course;
struct Named {
    const char *name;
    void (*call)(Course &, File &);
};

class Course : public KcmTest {
public:
    explicit Course(std::uint64_t seed) : KcmTest(seed) {}
    void TestBody() override {}
    void go(const Named &first, const Named &second, bool same_socket, Fault fault);

    using KcmTest::a;
    using KcmTest::b;
    using KcmTest::by_length;
    using KcmTest::host;
    using KcmTest::world;
    Ends echoing, stalled, spare; // the first two are attached
    kapi_u64 echoing_id = 0, stalled_id = 0;
    const std::string message = framed(text(kBytes));

private:
    void finish(const sim::TaskRef &task, std::uint64_t limit_ns)
    {
        if (!world.run_until([&] { return task->is_done(); }, limit_ns))
            world.fail("%s: %s does not end in time", what_.c_str(), task->name.c_str());
    }
    void echo(const Ends &ends)
    {
        echoes_.push_back(world.spawn(b, "echo", [ends] {
            char bytes[5000];
            for (long got; (got = sim::program_read(ends.there, bytes, sizeof(bytes))) > 0;)
                if (sim::program_write(ends.there, bytes, static_cast<std::size_t>(got)) != got)
                    break;
        }));
    }
    void use(const Named &named, File &file, Fault fault);
    sim::TaskRef healthy(KcmSocket &socket);

    std::vector<sim::TaskRef> echoes_;
    std::string what_; // this run is, for a report
};

// ---- the calls

void do_send(Course &c, File &f)
{
    f.socket.send(c.message.data(), c.message.size());
}
void do_send_begun(Course &c, File &f)
{
    f.socket.send(c.message.data(), c.message.size(), KCM_ABI_MSG_MORE);
}
void do_send_batched(Course &c, File &f)
{
    f.socket.send(c.message.data(), c.message.size(), KCM_ABI_MSG_BATCH);
}
void do_send_addressed(Course &c, File &f)
{
    f.socket.send(c.message.data(), c.message.size(), 0, c.echoing_id);
}
void do_send_to_stalled(Course &c, File &f)
{
    f.socket.send(c.message.data(), c.message.size(), 0, c.stalled_id);
}
/** So many that are one after the other in objects of up to 64: of a call, or of some calls. */
void do_send_each(Course &c, File &f)
{
    const std::vector<std::string> messages(100, framed(text(60)));
    std::string bytes;
    for (const std::string &message : messages)
        bytes += message;
    const std::vector<std::uint32_t> lengths(messages.size(), static_cast<std::uint32_t>(messages[0].size()));
    const std::uint64_t receivers[] = {0, c.echoing_id, c.stalled_id};
    f.socket.send_each(bytes.data(), bytes.size(), lengths, c.world.random().one_in(2) ? KCM_ABI_MSG_BATCH : 0,
                       receivers[c.world.random().below(3)]);
}
void do_receive_each(Course &c, File &f)
{
    std::string in(2 * kBytes, '\0');
    f.socket.set_option(KCM_ABI_RECV_LENGTHS, 1);
    std::size_t room = c.world.random().one_in(2) ? in.size() : 1000;
    f.socket.receive_each(in.data(), room, c.world.random().one_in(2) ? KCM_ABI_MSG_DONTWAIT : 0, 256);
    f.socket.set_option(KCM_ABI_RECV_LENGTHS, c.world.random().one_in(2));
}
void do_receive(Course &, File &f)
{
    std::string in(2 * kBytes, '\0');
    f.socket.receive(in.data(), in.size());
}
void do_peek(Course &, File &f)
{
    std::string in(2 * kBytes, '\0');
    f.socket.receive(in.data(), in.size(), KCM_ABI_MSG_PEEK | KCM_ABI_MSG_DONTWAIT);
}
void do_poll(Course &, File &f)
{
    f.socket.poll();
}
void do_attach(Course &c, File &f)
{
    f.socket.attach(c.spare.here, c.by_length);
}
void do_unattach(Course &c, File &f)
{
    f.socket.unattach(c.world.random().one_in(2) ? c.spare.here : c.stalled.here);
}
void do_unattach_echoing(Course &c, File &f)
{
    f.socket.unattach(c.echoing.here, c.world.random().one_in(2));
}
void do_clone(Course &c, File &f)
{
    KcmSocket clone(c.host);
    clone.open_as_clone(f.socket);
}
void do_disable(Course &c, File &f)
{
    f.socket.set_option(KCM_ABI_RECV_DISABLE, c.world.random().one_in(2));
}
void do_options(Course &c, File &f)
{
    f.socket.set_option(KCM_ABI_ERRORS, c.world.random().one_in(2));
    f.socket.set_option(KCM_ABI_STEERING, static_cast<int>(c.world.random().below(3)));
    f.socket.set_sndbuf(static_cast<kapi_u32>(5000 + c.world.random().below(50'000)));
}
void do_stats(Course &c, File &f)
{
    std::vector<unsigned char> rows(4096);
    kapi_optval value{rows.data(), rows.size()};
    int length = static_cast<int>(rows.size());
    kcm_socket_getsockopt(f.socket.core(), KCM_ABI_STATS, &value, &length);
    f.socket.id_of(c.spare.here);
}
void do_totals(Course &c, File &)
{
    kcm_totals sum{};
    kcm_net_totals(c.host.net(c.a.initial_net()), &sum);
}
void do_show(Course &c, File &)
{
    static constexpr kcm_rows rows = {.mux = [](void *, const kcm_mux_row *) { return 0; },
                                      .socket = [](void *, const kcm_socket_row *) { return 0; },
                                      .connection = [](void *, const kcm_connection_row *) { return 0; }};
    kcm_net_show(c.host.net(c.a.initial_net()), &rows, nullptr);
}
void do_dump(Course &c, File &)
{
    sim::dump(HAWSER_CMD_KCM_CONNECTION_GET, [&](kapi_report_place *place, kapi_report *report) {
        return kcm_net_report_connection(c.host.net(c.a.initial_net()), place, report);
    });
}
void do_reset(Course &c, File &) // of a connection, which TCP reports at that moment
{
    sim::program_write(c.spare.here, "x", 1);
    sim::program_set_buffers(c.echoing.here, 4000, 4000);
}
void do_close(Course &, File &f)
{
    f.closing = true;
}

constexpr Named kCalls[] = {{"sendmsg", do_send},
                            {"sendmsg with MSG_MORE", do_send_begun},
                            {"sendmsg with MSG_BATCH", do_send_batched},
                            {"sendmsg with an address", do_send_addressed},
                            {"sendmsg to a peer that does not read", do_send_to_stalled},
                            {"sendmsg with KCM_LENGTHS", do_send_each},
                            {"recvmsg", do_receive},
                            {"recvmsg with KCM_RECV_LENGTHS", do_receive_each},
                            {"recvmsg with MSG_PEEK", do_peek},
                            {"poll", do_poll},
                            {"SIOCKCMATTACH", do_attach},
                            {"SIOCKCMUNATTACH", do_unattach},
                            {"SIOCKCMUNATTACH of one in use", do_unattach_echoing},
                            {"SIOCKCMCLONE", do_clone},
                            {"KCM_RECV_DISABLE", do_disable},
                            {"other options", do_options},
                            {"KCM_STATS and KCM_ATTACHED", do_stats},
                            {"/proc/net/kcm_stats", do_totals},
                            {"/proc/net/kcm", do_show},
                            {"a dump over netlink", do_dump},
                            {"the TCP sockets' own calls", do_reset},
                            {"close", do_close}};

// ---- a run

/** One of the two tasks: the call, some times, the first of them with the fault. */
void Course::use(const Named &named, File &file, Fault fault)
{
    if (!file.enter())
        return;
    for (unsigned i = 0; i < kTimes; i++) {
        if (!i && fault == Fault::allocation)
            a.faults().fail_at = a.faults().count + 1 + world.random().below(6);
        if (!i && fault == Fault::memory)
            file.socket.trouble = {.fault_at = world.random().below(kBytes), .stall_at = 0,
                                   .stall_ns = world.random().below(sim::kMillisecond)};
        if (!i && fault == Fault::signal)
            world.after(world.random().below(sim::kMillisecond),
                        [this, self = std::weak_ptr<sim::Task>(sim::World::current_task()->weak_from_this())] {
                            if (auto task = self.lock(); task && !task->is_done())
                                world.signal(*task);
                        });
        named.call(*this, file);
    }
    file.leave();
}

/** Sends its messages and gets as many back. */
sim::TaskRef Course::healthy(KcmSocket &socket)
{
    return world.spawn(a, "healthy", [this, &socket] {
        auto again = [&](const std::function<long()> &attempt) { // the allocation that fails may be one of the test
            for (unsigned i = 0; i < 3; i++)
                if (attempt() == static_cast<long>(message.size()))
                    return true;
            return false;
        };
        for (unsigned i = 0; i < kHealthyMessages; i++) {
            std::string in(2 * kBytes, '\0');
            EXPECT_TRUE(again([&] { return socket.send(message.data(), message.size()); }));
            EXPECT_TRUE(again([&] { return socket.receive(in.data(), in.size()); }));
        }
    });
}

void Course::go(const Named &first, const Named &second, bool same_socket, Fault fault)
{
    what_ = std::string(first.name) + " with " + kFaultNames[static_cast<int>(fault)] + " against " + second.name;
    File files[] = {{new_socket()}, {new_socket()}};
    KcmSocket &other = new_socket();
    echo(echoing = open_with_one(files[0].socket));
    Ends others = open_with_one(other);
    echo(others);
    stalled = connect(4000);
    spare = connect();
    run(a, [&] {
        ASSERT_EQ(files[1].socket.open_as_clone(files[0].socket), 0);
        ASSERT_EQ(files[0].socket.attach(stalled.here, by_length), 0);
        echoing_id = static_cast<kapi_u64>(files[0].socket.id_of(echoing.here));
        stalled_id = static_cast<kapi_u64>(files[0].socket.id_of(stalled.here));
        for (File &file : files)
            file.socket.sk().sndtimeo_ns = file.socket.sk().rcvtimeo_ns = kPatience;
        other.sk().rcvtimeo_ns = kHealthyWithin;
    });
    auto pair = healthy(other);
    sim::TaskRef calls[] = {
        world.spawn(a, first.name, [&] { use(first, files[0], fault); }),
        world.spawn(a, second.name, [&] { use(second, files[same_socket ? 0 : 1], Fault::none); })};
    for (auto &task : calls)
        finish(task, 2 * kTimes * kPatience + sim::kSecond);
    a.faults().fail_at = 0;
    finish(pair, kHealthyWithin);
    run(a, [&] {
        for (KcmSocket *socket : {&files[0].socket, &files[1].socket, &other})
            socket->close();
        for (const Ends &ends : {echoing, others, stalled, spare})
            close(ends.here);
    });
    for (auto &task : echoes_)
        finish(task, 100 * sim::kSecond); // as long as a closed socket may send
}

class KcmPairs : public testing::TestWithParam<Fault> {};

TEST_P(KcmPairs, each_call_against_each)
{
    std::uint64_t seed = 1;
    for (const Named &first : kCalls) {
        for (const Named &second : kCalls) {
            SCOPED_TRACE(std::string(first.name) + " against " + second.name);
            Course course(seed);
            course.go(first, second, seed++ % 2, GetParam());
            if (testing::Test::HasFailure())
                return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Faults, KcmPairs, testing::ValuesIn(kFaults));

} // namespace
