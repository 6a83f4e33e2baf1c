// SPDX-License-Identifier: GPL-2.0
#include "rtrs_devices.h"

using namespace sim;

namespace {

constexpr kapi_u32 kFirstInterface = 2;

} // namespace

RtrsDevices::RtrsDevices(RtrsCourse &course, Node &node, const char *const (&addresses)[RtrsCourse::kPaths])
    : course_(course), node_(node)
{
    for (unsigned i = 0; i < RtrsCourse::kPaths; i++)
        node_.initial_net().add(address(addresses[i]), kFirstInterface + i);
    crashed();
}

void RtrsDevices::plug(unsigned path)
{
    devices_[path] = &plug_rdma(node_.initial_net(), "rxe_" + node_.name() + std::to_string(path), kFirstInterface + path);
}

void RtrsDevices::take(unsigned path)
{
    if (!devices_[path])
        return;
    course_.outcome.net_deletions++;
    away_++;
    course_.world.spawn(node_, "unplug", [this, path] {
        unplug_rdma(*devices_[path]);
        devices_[path] = nullptr;
        unsigned life = node_.life();
        course_.world.after(course_.world.random().below(2 * kSecond), [this, path, life] {
            if (node_.life() != life)
                return;
            plug(path);
            away_--;
        });
    });
}

void RtrsDevices::hold(unsigned path)
{
    constexpr std::uint64_t kMostNs = 6 * kSecond;
    if (devices_[path])
        hold_packets(*devices_[path], course_.world.random().below(kMostNs));
}

void RtrsDevices::crashed()
{
    away_ = 0;
    for (unsigned i = 0; i < RtrsCourse::kPaths; i++)
        if (!devices_[i])
            plug(i);
}
