// SPDX-License-Identifier: GPL-2.0
// Devices that fail: they refuse a request, have no room for a mapping, or do nothing any more.
#include <kapi/sim/rdma.h>

#include "net/rds/net.h"
#include "rds_rdma_test.h"

namespace {

class RdsRdmaFailures : public RdmaTest {
protected:
    void open_all(std::vector<Program *> programs)
    {
        kapi_u16 port = kPort;
        for (Program *program : programs) {
            open(*program, port);
            program->socket.sk().sndbuf = program->socket.sk().rcvbuf = 8 << 20;
            port = &program->host == &host_a ? port + 1 : port;
        }
    }
    /** The device of a copies what is sent, with room for so many bytes beside its ring. The programs have a connection. */
    void begin_with_copies(Program &pa, Program &pb, std::uint64_t room)
    {
        constexpr std::uint64_t ring = 128 * (4 * 4096 + 48) + 513 * 48;
        sim::make_bounce(*dev_a, ring + room);
        load();
        open_all({&pa});
        open(pb);
        pb.socket.sk().rcvbuf = 8 << 20;
        say_hello(pa, pb);
    }
    void say_hello(Program &from, Program &to)
    {
        run(from.host.node(), [&] { from.send("hello"); });
        run(to.host.node(), [&] { EXPECT_EQ(to.receive(), "hello"); });
        world.run_for(100 * sim::kMillisecond);
    }
    static std::uint64_t counted(RdsHost &host, rds::Stat stat)
    {
        sim::NodeScope scope(host.node());
        return reinterpret_cast<rds::Net *>(host.net().rds)->counted(stat);
    }
    sim::TaskRef receive_numbers(Program &program, unsigned count, std::size_t size)
    {
        return spawn(program, [&program, count, size] {
            for (unsigned i = 0; i < count; i++)
                EXPECT_TRUE(program.receive() == numbered(size, i)) << i;
        });
    }
};

// The device refuses a request when others before it were posted: they may have arrived.
TEST_P(RdsRdmaFailures, messages_arrive_once__when_a_request_is_refused_behind_them)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pb);
    open_all({&pa});
    sim::refuse_send(*dev_a, 16 + static_cast<unsigned>(GetParam()));
    constexpr std::size_t kSizes[] = {100, 200'000, 100};
    auto sends = spawn(pa, [&] {
        for (unsigned i = 0; i < 3; i++)
            pa.send(numbered(kSizes[i], i));
    });
    auto receives = spawn(pb, [&] {
        for (unsigned i = 0; i < 3; i++)
            EXPECT_TRUE(pb.receive() == numbered(kSizes[i], i)) << i;
    });
    EXPECT_TRUE(wait({sends, receives}));
    close(pa);
    close(pb);
}

// What was to follow, and to ask for the acknowledgement, is cancelled.
TEST_P(RdsRdmaFailures, a_message_is_acknowledged__also_when_what_follows_is_cancelled)
{
    load();
    auto pa = on_a(), other = on_a(), pb = on_b();
    open_all({&pa, &other});
    open(pb);
    pb.socket.sk().rcvbuf = 8 << 20;
    say_hello(pa, pb);
    cut(true);
    std::string text(1500, 'x');
    run(a, [&] {
        other.send(contents(1 << 20, 1));
        pa.send(text);
        other.send(contents(1 << 20, 2));
        other.socket.close();
    });
    cut(false);
    world.run_for(5 * sim::kSecond);
    run(a, [&] {
        pa.socket.sk().sndbuf = 4096; // half of it for what is not acknowledged
        EXPECT_EQ(pa.socket.send(text.data(), text.size(), sim::address("10.0.0.2", kPort), RDS_ABI_MSG_DONTWAIT),
                  static_cast<long>(text.size()));
    });
    close(pa);
    close(pb);
}

// Where the device does not reach memory itself, the room for copies may be full for the moment.
TEST_P(RdsRdmaFailures, a_full_bounce_buffer__is_waited_for)
{
    constexpr std::size_t kSize = 40'000;
    constexpr unsigned kCount = 20;
    auto pa = on_a(), pb = on_b();
    begin_with_copies(pa, pb, kSize + 4096);
    auto began = world.now_ns();
    auto receives = receive_numbers(pb, kCount, kSize);
    run(a, [&] {
        for (unsigned i = 0; i < kCount; i++)
            pa.send(numbered(kSize, i));
    });
    EXPECT_TRUE(wait({receives}));
    EXPECT_LT(world.now_ns() - began, 2 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    close(pa);
    close(pb);
}

// A few bytes are held until something reports its completion (RdsRdmaAcks), and nothing is posted that would.
TEST_P(RdsRdmaFailures, a_bounce_buffer_full_of_what_is_held__is_emptied_by_an_acknowledgement)
{
    constexpr std::size_t kSize = 1000;
    constexpr unsigned kHeld = 2;
    auto pa = on_a(), pb = on_b();
    begin_with_copies(pa, pb, 1 << 20);
    for (unsigned i = 0; i < kHeld; i++) {
        run(a, [&] { pa.send(numbered(kSize, i)); });
        world.run_for(20 * sim::kMillisecond);
    }
    dev_a->bounce_room = kSize - 1;
    auto began = world.now_ns();
    auto receives = receive_numbers(pb, kHeld + 1, kSize);
    run(a, [&] { pa.send(numbered(kSize, kHeld)); });
    EXPECT_TRUE(wait({receives}));
    EXPECT_LT(world.now_ns() - began, 200 * sim::kMillisecond);
    EXPECT_GT(counter(pa, "ib_tx_sg_mapping_failure"), 0u);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    close(pa);
    close(pb);
}

TEST_P(RdsRdmaFailures, a_bounce_buffer_that_stays_full__ends_the_connection_after_seconds)
{
    sim::make_bounce(*dev_a, 128 * (4 * 4096 + 48) + 513 * 48 + 65536);
    load();
    auto pa = on_a(), pb = on_b();
    open_all({&pa});
    open(pb);
    say_hello(pa, pb);
    std::size_t room = dev_a->bounce_room;
    run(a, [&] { pa.send(contents(1 << 20, 1)); });
    world.run_for(4 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    EXPECT_TRUE(world.run_until([&] { return dev_a->bounce_room >= room; }, 100 * sim::kMillisecond)) << "what waits holds none";
    world.run_for(4 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 1u);
    close(pa);
    close(pb);
}

// What waited is cancelled. What is sent next has as much time.
TEST_P(RdsRdmaFailures, a_bounce_buffer_that_stays_full__ends_the_connection_for_nothing_that_was_cancelled)
{
    sim::make_bounce(*dev_a, 128 * (4 * 4096 + 48) + 513 * 48 + 65536);
    load();
    auto pa = on_a(), other = on_a(), pb = on_b();
    open_all({&pa, &other});
    open(pb);
    say_hello(pa, pb);
    run(a, [&] { other.send(contents(1 << 20, 1)); });
    world.run_for(3500 * sim::kMillisecond);
    close(other);
    world.run_for(3500 * sim::kMillisecond);
    run(a, [&] { pa.send(contents(1 << 20, 2)); });
    world.run_for(4 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    world.run_for(4 * sim::kSecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 1u);
    close(pa);
    close(pb);
}

// It is full for longer than a connection waits, but not at a time.
TEST_P(RdsRdmaFailures, a_bounce_buffer_that_is_full_again_and_again__is_waited_for)
{
    constexpr unsigned kCount = 40;
    sim::make_bounce(*dev_a);
    load();
    auto pa = on_a(), pb = on_b();
    open_all({&pa});
    open(pb);
    pb.socket.sk().rcvbuf = 8 << 20;
    say_hello(pa, pb);
    auto receives = receive_numbers(pb, kCount, 1000);
    for (unsigned i = 0; i < kCount; i++) {
        std::size_t taken = std::exchange(dev_a->bounce_room, 0);
        run(a, [&] { pa.send(numbered(1000, i)); });
        world.run_for(100 * sim::kMillisecond);
        dev_a->bounce_room += taken;
        world.run_for(200 * sim::kMillisecond);
    }
    EXPECT_TRUE(wait({receives}));
    EXPECT_GT(counter(pa, "ib_tx_sg_mapping_failure"), kCount);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    close(pa);
    close(pb);
}

// Each attempt comes late: the machine has much to do.
TEST_P(RdsRdmaFailures, a_bounce_buffer_that_stays_full__ends_the_connection_though_attempts_are_late)
{
    auto pa = on_a(), pb = on_b();
    begin_with_copies(pa, pb, 65536);
    run(a, [&] { pa.send(contents(1 << 20, 1)); });
    for (unsigned i = 0; i < 10 && !counted(host_a, rds::Stat::conn_reset); i++) {
        a.pause(1900 * sim::kMillisecond, false);
        world.run_for(1950 * sim::kMillisecond);
    }
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 1u);
    close(pa);
    close(pb);
}

// Only the memory that the device may use for ever is lost.
TEST_P(RdsRdmaFailures, a_device_that_is_stuck__is_removed)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    say_hello(pa, pb);
    sim::make_stuck(*dev_a);
    run(a, [&] { pa.send("is never sent"); });
    world.run_for(100 * sim::kMillisecond);
    auto began = world.now_ns();
    unplug(dev_a);
    EXPECT_LT(world.now_ns() - began, 12 * sim::kSecond) << "the device has ten to end what was posted";
    EXPECT_EQ(std::count(a.log.begin(), a.log.end(), "rds_rdma: device rxe_a does not end what it was given"), 1);
    world.run_for(30 * sim::kSecond);
    close(pa);
    run(a, [&] { EXPECT_TRUE(host_a.unload_soon()); }, 200 * sim::kSecond);
    a.crash(); // what was posted is never freed
    close(pb);
}

// As a program makes it that has many others wait for the same event. Nothing is lost that a device might use for ever.
TEST_P(RdsRdmaFailures, a_connection__ends_whatever_its_callbacks_take)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    say_hello(pa, pb);
    sim::make_slow(*dev_b, 100 * sim::kMillisecond);
    run(a, [&] {
        for (unsigned i = 0; i < 100; i++)
            pa.send("one of many");
    });
    unplug(dev_a);
    world.run_for(300 * sim::kSecond);
    EXPECT_EQ(std::count(b.log.begin(), b.log.end(), "rds_rdma: device rxe_b does not end what it was given"), 0);
    sim::make_slow(*dev_b, 0);
    close(pa);
    close(pb);
}

// A device tries seven times, each for a quarter to half of a second.
TEST_P(RdsRdmaFailures, a_peer_that_does_not_answer__is_gone_after_some_two_seconds)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    say_hello(pa, pb);
    world.run_for(3 * sim::kSecond); // all is acknowledged
    cut(true);
    run(a, [&] { pa.send("is lost"); });
    world.run_for(1850 * sim::kMillisecond);
    EXPECT_EQ(counted(host_a, rds::Stat::conn_reset), 0u);
    world.run_for(1950 * sim::kMillisecond);
    EXPECT_GE(counted(host_a, rds::Stat::conn_reset), 1u);
    cut(false);
    run(b, [&] { EXPECT_EQ(pb.receive(), "is lost"); });
    close(pa);
    close(pb);
}

// The device has ten seconds to end what was posted.
TEST_P(RdsRdmaFailures, a_device_that_is_stuck__does_not_keep_the_end_from_the_peer)
{
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    say_hello(pa, pb);
    sim::make_stuck(*dev_a);
    run(a, [&] { pa.send("is never sent"); });
    close(pa);
    auto unloads = world.spawn(a, "unload", [&] { EXPECT_TRUE(host_a.unload_soon()); });
    world.run_for(sim::kSecond);
    EXPECT_EQ(counted(host_b, rds::Stat::conn_reset), 1u);
    EXPECT_TRUE(wait({unloads}, 200 * sim::kSecond));
    a.crash(); // what was posted is never freed
    close(pb);
}

TEST_P(RdsRdmaFailures, a_device__is_removed_from_among_others)
{
    auto &second = sim::plug_rdma(a.initial_net(), "second", 3), &third = sim::plug_rdma(a.initial_net(), "third", 4);
    load();
    auto pa = on_a(), pb = on_b();
    open(pa);
    open(pb);
    for (kapi_rdma_dev *dev : {&second, &third}) {
        run(a, [&] { sim::unplug_rdma(*dev); });
        say_hello(pa, pb);
    }
    close(pa);
    close(pb);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdsRdmaFailures, ::testing::Range(1, 9));

} // namespace
