// SPDX-License-Identifier: GPL-2.0
// The RTRS client and the RTRS server with a disk that is slow now and then, while administrators of both change the paths,
// devices go, their buffers for copies are full, and the network is cut: what the disk has does not change, what was written is
// read, and each permit comes back.
#include "kapi/sim/interrupt.h"
#include "kapi/sim/rdma.h"
#include "rtrs_pair_test.h"

namespace {

/** Some requests end within the call, others later. */
struct SlowDisk {
    struct Request {
        rtrs_srv_op *op;
        char *data;
        std::size_t size;
        const char *usr;
        std::size_t usr_size;
        std::string message() const { return {usr, usr_size}; }
        std::string bytes() const { return {data, size}; }
    };
    sim::World &world;
    sim::Node &node;
    bool calm = false;
    unsigned changed = 0; // under the disk's hands
    std::map<std::string, std::string> contents{};
    int priv = 0;

    static int rdma_ev(void *user, void *, rtrs_srv_op *op, void *data, kapi_size size, const void *usr, kapi_size usr_size)
    {
        auto &self = *static_cast<SlowDisk *>(user);
        Request request{op, static_cast<char *>(data), size, static_cast<const char *>(usr), usr_size};
        if (self.world.random().one_in(2))
            self.serve(request);
        else
            self.world.spawn(self.node, "disk", [&self, request] { self.serve(request); });
        return 0;
    }
    void serve(const Request &request)
    {
        const std::string message = request.message(), bytes = request.bytes();
        bool slow = !calm && world.random().one_in(8);
        world.sleep(world.random().below(slow ? 7 * sim::kSecond : sim::kMillisecond));
        changed += request.message() != message || (message[0] == 'w' && request.bytes() != bytes);
        std::string &place = contents[message.substr(1)];
        if (message[0] == 'w')
            place = request.bytes();
        else
            std::memcpy(request.data, place.data(), std::min(request.size, place.size()));
        sim::HardInterrupt interrupt;
        rtrs_srv_core_resp(request.op, 0);
    }
    static int link_ev(void *user, rtrs_srv_sess *session, rtrs_srv_core_event event, void *)
    {
        if (event == RTRS_SRV_CORE_CONNECTED)
            rtrs_srv_core_set_priv(session, &static_cast<SlowDisk *>(user)->priv);
        return 0;
    }
    static constexpr rtrs_srv_core_ops ops{rdma_ev, link_ev};
};

class RtrsStorm : public RtrsPairTest {
protected:
    static constexpr unsigned kDepth = 16;
    static constexpr std::size_t kRoom = SIZE_MAX / 2;

    ~RtrsStorm() override { end(); }
    void start()
    {
        load();
        for (auto *device : devices)
            fit(*device);
        start_server({65536, kDepth, chance(2)}, SlowDisk::ops, &disk);
        open(2);
        EXPECT_EQ(put(root + "io_timeout_ms", chance(2) ? "1500" : "0"), 0);
        EXPECT_EQ(put(root + "no_path_timeout_ms", chance(2) ? "3000" : "0"), 0);
    }
    bool chance(unsigned n) { return world.random().one_in(n); }
    void pause(std::uint64_t most_ns) { world.sleep(world.random().below(most_ns)); }
    void spawn(sim::Node &node, const char *name, const bool &until, const std::function<void()> &once)
    {
        tasks.push_back(world.spawn(node, name, [&until, once] {
            while (!until)
                once();
        }));
    }

    int call(bool read, const std::string &name, std::string &data)
    {
        return RtrsPairTest::call(read, (read ? "r" : "w") + name, data);
    }
    /** A name is written once, so that nothing late changes it. */
    void write_and_read()
    {
        pause(50 * sim::kMillisecond);
        unsigned number = written++;
        std::string data = contents(1 + world.random().below(30000), number), got(data.size(), '-');
        if (call(false, std::to_string(number), data) == 0 && call(true, std::to_string(number), got) == 0) {
            EXPECT_TRUE(got == data) << number;
        }
    }
    void administer()
    {
        pause(2 * kSecond);
        unsigned nth = chance(2);
        switch (world.random().below(4)) {
        case 0:
            sim::sysfs_write(path(nth) + "disconnect", "1");
            pause(kSecond);
            [[fallthrough]];
        case 1:
            sim::sysfs_write(path(nth) + "reconnect", "1");
            break;
        case 2:
            sim::sysfs_write(path(nth) + "remove_path", "1");
            pause(kSecond);
            [[fallthrough]];
        default:
            sim::sysfs_write(root + "add_path", path_name(nth));
        }
    }
    void disconnect_at_server()
    {
        pause(6 * kSecond);
        sim::sysfs_write("/sys/class/rtrs-server/session/paths/" + path_name(chance(2)) + "/disconnect", "1");
    }
    void change_device()
    {
        pause(15 * kSecond);
        unsigned nth = chance(2);
        sim::unplug_rdma(*std::exchange(devices[nth], nullptr));
        pause(kSecond);
        kapi_rdma_dev &device = sim::plug_rdma(a.initial_net(), nth ? "rxe_a1" : "rxe_a0", nth ? 3 : 2);
        fit(device);
        devices[nth] = &device;
    }
    /** A device of the client may not reach its memory. */
    void fit(kapi_rdma_dev &device)
    {
        if (copies)
            sim::make_bounce(device, kRoom);
    }
    void fill_buffers()
    {
        pause(6 * kSecond);
        set_room(0);
        pause(3 * kSecond);
        set_room(kRoom);
    }
    void set_room(std::size_t bytes)
    {
        for (auto *device : devices)
            if (device && device->bounces)
                device->bounce_room = bytes;
    }
    void cut_network()
    {
        world.run_for(world.random().below(10 * kSecond));
        cut(chance(2));
        world.run_for(world.random().below(8 * kSecond));
        cut(false);
    }
    bool are_connected()
    {
        return get(path(0) + "state") == "connected\n" && get(path(1) + "state") == "connected\n";
    }
    /**
     * Nothing is asked of a path that is there: it comes back by itself. Only while no request lasts for longer than
     * io_timeout_ms, which would end it again.
     */
    void make_paths()
    {
        disk.calm = true;
        for (int round = 0; round < 20 && !are_connected(); round++) {
            for (unsigned nth : {0u, 1u}) {
                put(root + "add_path", path_name(nth));
                if (get(path(nth) + "state_detail") == "stopped\n")
                    put(path(nth) + "reconnect", "1");
            }
            world.run_for(5 * kSecond);
        }
        EXPECT_TRUE(are_connected());
        disk.calm = false;
    }
    std::size_t free_permits()
    {
        std::vector<rtrs_clt_chunk *> taken;
        run(a, [&] {
            while (auto *one = rtrs_clt_core_get_permit(session, 0, 0))
                taken.push_back(one);
            for (auto *one : taken)
                rtrs_clt_core_put_permit(session, one);
        });
        return taken.size();
    }

    SlowDisk disk{world, b};
    std::vector<sim::TaskRef> tasks;
    bool stop = false;
    const bool copies = GetParam() % 2 == 0;
    unsigned written = 0;
};

TEST_P(RtrsStorm, each_permit_comes_back)
{
    start();
    for (unsigned n = 0; n < 24; n++)
        spawn(a, "program", stop, [&] { write_and_read(); });
    bool quiet = false;
    spawn(a, "administrator", quiet, [&] { administer(); });
    spawn(b, "administrator", quiet, [&] { disconnect_at_server(); });
    spawn(a, "devices", quiet, [&] { change_device(); });
    spawn(a, "buffers", quiet, [&] { fill_buffers(); });
    for (int round = 0; round < 5; round++)
        cut_network();
    quiet = true;
    make_paths();
    world.run_for(world.random().below(30 * kSecond)); // the disk is slow all the same
    stop = disk.calm = true;
    auto ended = [&] { return std::all_of(tasks.begin(), tasks.end(), [](auto &task) { return task->is_done(); }); };
    ASSERT_TRUE(world.run_until(ended, 150 * kSecond));
    world.run_for(45 * kSecond);
    EXPECT_EQ(free_permits(), kDepth);
    EXPECT_EQ(disk.changed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RtrsStorm, ::testing::Range(1, 5));

} // namespace
