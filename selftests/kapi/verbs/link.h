// SPDX-License-Identifier: GPL-2.0
// Two connected queue pairs of two devices, with memory each, for the tests to play with.
#pragma once

#include "../check.h"

#include <kapi/errno.h>
#include <kapi/verbs.h>
#include <kapi/verbs_memory.h>
#include <kapi/verbs_queue.h>

namespace test {

// What the watch has seen: the devices of the two addresses.
struct Devices {
    // Of removed(): runs until nothing is left of the device.
    void (*on_removed)(void* context);
    void* context;
    kapi_rdma_dev* dev[2];
    const struct kapi_rdma_attrs* attrs[2];
    volatile unsigned added, removed;
};

struct VerbsBench {
    kapi_net* net;
    Devices* devices;
};

kapi_addr v4(unsigned char subnet, kapi_u16 port = 0);  // 10.77.subnet.1
kapi_addr v6(unsigned char subnet, kapi_u16 port = 0);  // fd77:subnet::1
kapi_addr link_local(unsigned char end, kapi_u16 port = 0); // fe80::77:end, on the first device
inline constexpr kapi_u16 test_port = 18700;
inline constexpr kapi_size memory_size = 65536;

// One end. Its callbacks only write here.
struct Side {
    kapi_cm* cm;
    kapi_pd* pd;
    kapi_cq* cq;
    kapi_qp* qp;
    kapi_rdma_dev* dev;
    unsigned char* memory;
    kapi_map map;
    bool mapped;
    volatile unsigned resolved, established, ended, completed;
    kapi_cm_end end;
    unsigned char data[256]; // that came with the acceptance or the rejection
    kapi_size size;
    kapi_wc wcs[256];
    void (*after)(Side& side); // done() ends with that, or NULL
    kapi_u64 last_visit;
    unsigned longer_visits; // of a softirq that went on after done() had taken its turn

    bool add_queues(const VerbsBench& bench, kapi_cq_mode mode, kapi_rdma_dev* of);
    void poll();
    // One request with these bytes of memory; returns what posting did.
    int send(kapi_wr& wr, kapi_size offset, kapi_size length);
    int receive(kapi_u64 cookie, kapi_size offset, kapi_size length);
    // The next completion that nobody has looked at yet, or NULL.
    const kapi_wc* next();
    void close();
    unsigned looked;
    kapi_cq_mode mode;
};

struct Shape {
    kapi_cq_mode mode = KAPI_CQ_SOFTIRQ;
    bool ipv6 = false;
    bool link_local = false;  // its addresses of that kind
    bool both = false;        // IPv4, to a listener for both families
    bool take = true;         // or reject in request()
    bool attach = true;       // or forget that
    bool siw = false;         // a's queue pair is of a device that says so
    kapi_size answer = 0;     // bytes of the rejection
    kapi_u8 rnr_retry = 6;
    kapi_u16 port = test_port; // that a connects to
};

extern const kapi_cm_ops side_ops;
extern const kapi_cm_listener_ops link_listener_ops;

// a asks, b answers.
struct Link {
    Side a, b;
    kapi_cm_listener* listener;
    Shape shape;
    volatile unsigned requests;
    struct kapi_cm_offer request; // data: request_data
    unsigned char request_data[64];

    bool listen(const VerbsBench& bench, const Shape& wanted);
    int begin(const VerbsBench& bench); // as kapi_cm_connect()
    bool ask_only(const VerbsBench& bench, const Shape& wanted); // and do not wait for an answer
    bool ask(const VerbsBench& bench, const Shape& wanted);      // until request() has run
    bool open(const VerbsBench& bench, const Shape& wanted = {});
    void close();
};

// A link that is closed when the test ends.
class OpenLink {
public:
    OpenLink() = default;
    ~OpenLink()
    {
        if (link_)
            link_->close();
    }
    explicit operator bool() const { return static_cast<bool>(link_); }
    Link* operator->() const { return &*link_; }
    Link& operator*() const { return *link_; }

private:
    Boxed<Link> link_;
};

bool devices(VerbsBench&);
bool messages(VerbsBench&, kapi_cq_mode);
bool connect_private_data(VerbsBench&);
bool connect_ipv6(VerbsBench&);
bool connect_link_local(VerbsBench&);
bool connect_v4_to_both(VerbsBench&);
bool connect_rejected(VerbsBench&);
bool connect_rejected_later(VerbsBench&);
bool connect_forgotten(VerbsBench&);
bool connect_to_nobody(VerbsBench&);
bool connect_errors(VerbsBench&);
bool listen_errors(VerbsBench&);
bool disconnect(VerbsBench&);
bool destroy_early(VerbsBench&);
bool drain(VerbsBench&, kapi_cq_mode);
bool drain_in_vain(VerbsBench&);
bool drain_slowly(VerbsBench&);
bool short_visits(VerbsBench&);
bool large_requests(VerbsBench&);
bool unsignalled(VerbsBench&);
bool chains(VerbsBench&);
bool impossible_requests(VerbsBench&);
bool full_queue(VerbsBench&);
bool no_receive(VerbsBench&);
bool too_long(VerbsBench&);
bool limits(VerbsBench&);
bool read_and_write(VerbsBench&);
bool bounds(VerbsBench&);
bool dead_keys(VerbsBench&);
bool registrations(VerbsBench&);
bool refused_while_held(VerbsBench&);
bool atomics(VerbsBench&);
bool region_errors(VerbsBench&);
bool mappings(VerbsBench&);
bool block_list(VerbsBench&);
bool pin(VerbsBench&);
bool pin_errors(VerbsBench&);
bool pin_limit(VerbsBench&);
bool pin_limit_wakes_one(VerbsBench&);
bool pin_limit_wakes_all_at_last(VerbsBench&);
bool pin_limit_awaits_nothing_of_others(VerbsBench&);
bool pin_limit_small_before_large(VerbsBench&);
bool busy_pins_share_one_work(VerbsBench&);
bool busy_pins_count_for_their_user(VerbsBench&);
bool receive_buffers(VerbsBench&);
bool removed_under_load(VerbsBench&);
bool removed_while_resolving(VerbsBench&);
bool exclusive(VerbsBench&);

} // namespace test
