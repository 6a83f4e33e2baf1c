// SPDX-License-Identifier: GPL-2.0
#include "rtrs_server_side.h"

#include <kapi/sim/sysfs.h>

#include <utility>

using namespace sim;

RtrsServerSide::RtrsServerSide(RtrsCourse &course, Node &of)
    : node(of), devices(course, of, RtrsCourse::kServer), disk(course, of), course_(course)
{
}

/** No allocation failures here: the unit tests cover those one by one. */
void RtrsServerSide::boot()
{
    node.faults().one_in = 0;
    module_ = &node.load_module("rtrs_server");
    rtrs_srv_core_params params{static_cast<kapi_s64>(course_.profile.chunk), course_.profile.depth,
                                course_.profile.always_invalidate};
    if (rtrs_srv_core_init(module_, &params))
        course_.fail("the server's module does not load");
    if (rtrs_srv_core_open(&node.initial_net(), &RtrsDisk::ops, &disk, RtrsCourse::kPort, &server_))
        course_.fail("the server does not open");
    node.faults().one_in = course_.calm ? 0 : course_.profile.fail_one_in;
    steady_ = true;
}

void RtrsServerSide::stop()
{
    steady_ = false;
    rtrs_srv_core_close(std::exchange(server_, nullptr));
    if (!disk.is_idle() || disk.sessions())
        course_.fail("the server is closed, and its user still has requests or sessions");
    if (!node.start_unload(*module_))
        course_.fail("the server's module does not unload");
    rtrs_srv_core_exit();
    node.unload_done(*std::exchange(module_, nullptr));
    node.memory().expect_empty("the server's module");
}

bool RtrsServerSide::is_idle() const
{
    return disk.is_idle() && !disk.sessions() && !node.live_rdma.count("queue pair") && !node.live_rdma.count("region");
}

void RtrsServerSide::disconnect(unsigned path)
{
    std::string name = std::string("ip:") + RtrsCourse::kClient[path] + "@ip:" + RtrsCourse::kServer[path];
    sysfs_write("/sys/class/rtrs-server/session/paths/" + name + "/disconnect", "1");
}

void RtrsServerSide::crash()
{
    course_.outcome.crashes++;
    steady_ = false;
    node.crash();
    disk.crashed();
    module_ = nullptr;
    server_ = nullptr;
    devices.crashed();
    course_.world.after(course_.world.random().below(3 * kSecond),
                        [this] { course_.world.spawn(node, "boot", [this] { boot(); }); });
}

void RtrsServerSide::reload()
{
    course_.outcome.reloads++;
    steady_ = false;
    course_.world.spawn(node, "reload", [this] {
        stop();
        course_.world.sleep(course_.world.random().below(kSecond));
        boot();
    });
}
