// SPDX-License-Identifier: GPL-2.0
// What a test does with RDMA devices: it plugs them in and out, and breaks them.
#pragma once

#include <kapi/verbs.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct kapi_net;
struct kapi_cq;

/** The block layer's list in the simulator: an array of these. */
struct kapi_sglist {
    unsigned char *bytes;
    std::size_t place; // within its page
    std::size_t length;
};

namespace sim {

class Node;

/** Plugs a device into net's interface ifindex, whose addresses it has from now on; added() follows. From outside of tasks. */
kapi_rdma_dev &plug_rdma(kapi_net &net, const std::string &name, kapi_u32 ifindex = 2,
                         const std::function<void(kapi_rdma_attrs &)> &change = {});
/** From a task of its machine: the removal of a device, which waits until nothing of it is left. */
void unplug_rdma(kapi_rdma_dev &dev);
/** rdma system set netns exclusive: only that namespace may use it; null: the one of its interface. */
void make_exclusive(kapi_rdma_dev &dev, const kapi_net *only = nullptr);
/** Shared mode: it also has the addresses of net's interface of the same number, as if a VLAN of it had been moved there. */
void share(kapi_rdma_dev &dev, const kapi_net &net);
/** Its connection manager does not say which link a link-local address is of, as that of InfiniBand. */
void hide_links(kapi_rdma_dev &dev);
/** Whether the device works on copies, so that what is not synchronised is not seen. */
void make_bounce(kapi_rdma_dev &dev, std::size_t room = SIZE_MAX); // in bytes; beyond it nothing can be mapped
void shift_bounces(kapi_rdma_dev &dev); // as swiotlb's for a device that has not asked it to keep the place within a page
/** The device stops working: nothing that is posted ends. */
void make_stuck(kapi_rdma_dev &dev);
/** For each completion of the device its callback takes so long, as if others in softirqs of the processor did. */
void make_slow(kapi_rdma_dev &dev, std::uint64_t time_ns);
/** The device gives up no region: a key that was valid stays so. */
void keep_regions(kapi_rdma_dev &dev);
/**
 * For this time a switch holds what the device sends, as priority flow control makes it do: it arrives when the time is over,
 * also if what has sent it is gone by then.
 */
void hold_packets(kapi_rdma_dev &dev, std::uint64_t time_ns);
/** The device begins with the same keys as others of this kind. */
void repeat_keys(kapi_rdma_dev &dev);
/** A program maps a file on persistent memory there, in place of what it had: such memory cannot be pinned. */
void map_dax(Node &node, const void *memory, std::size_t length, bool writable = true);
/** The program unmaps it: from now on an access faults, also a device's. */
void unmap_dax(Node &node, const void *memory);
/** The device refuses one request to send, the one after so many others. */
void refuse_send(kapi_rdma_dev &dev, unsigned after);
/** Over iWARP: the device does not send one read, the one that begins after so many others. It fails before those have ended. */
void fail_read(kapi_rdma_dev &dev, unsigned after);
/** As Soft-RoCE: a packet that is alone on its way fails when the peer had no receive posted for as long as it may not answer. */
void count_not_ready(kapi_rdma_dev &dev);
/** What each request for a connection says is changed, as if a peer of another kind had sent it. */
void edit_requests(std::function<void(std::vector<unsigned char> &)> edit);
/** Routes from the device are not found, for this errno; 0: they are. */
void fail_routes(kapi_rdma_dev &dev, int error);
/** How many receives were posted to queue pairs that had failed. */
unsigned posted_late(const kapi_rdma_dev &dev);
/** The queue sleeps until a solicited message arrives, as that of the kernel's own RDS does. */
void arm_solicited(kapi_cq &cq, bool solicited = true);

} // namespace sim
