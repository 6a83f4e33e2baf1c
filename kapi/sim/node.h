// SPDX-License-Identifier: GPL-2.0
// A simulated machine: its memory, deferred work, grace periods, namespaces, modules and log.
#pragma once

#include <kapi/host.h>
#include <kapi/memory.h>
#include <kapi/types.h>
#include <kapi/work.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "descriptors.h"
#include "report.h"
#include "world.h"

struct kapi_net {
    sim::Node *node;
    bool initial;
    unsigned id; // never used twice in a world
    unsigned owner = 0; // the user who made it
    unsigned sockets = 0; // that hold it, and in all but the first one RDMA's listeners and connections
    kapi_u32 addr_generation = 1;
    kapi_u16 port_low = 32768, port_high = 60999;
    kapi_u16 reserved_low = 0, reserved_high = 0; // of these, net.ipv4.ip_local_reserved_ports
    bool ipv6 = true; // the host was started with it
    struct Address {
        kapi_addr addr; // port 0; scope 0
        kapi_u32 ifindex;
    };
    std::vector<Address> addresses;
    bool going = false; // nothing holds it any more, and nothing can

    bool holds(const kapi_addr &addr) const;
    kapi_u32 ifindex_of(const kapi_addr &addr) const; // of the interface that has it, 0: none
    void add(const kapi_addr &addr, kapi_u32 ifindex = 2);
    void remove(const kapi_addr &addr);
};

struct kapi_module {
    sim::Node *node;
    std::string name;
    unsigned references = 0;
    bool unloading = false;
};

namespace sim {

/** Makes an address from "10.0.0.1" or "fe80::1". */
kapi_addr address(const char *text, kapi_u16 port = 0, kapi_u32 scope = 0);
bool same_ip(const kapi_addr &a, const kapi_addr &b);

/** Places where a kapi call may fail without memory: each is counted, and the test selects those that fail. */
struct Faults {
    std::uint64_t count = 0;   // fallible calls so far
    std::uint64_t fail_at = 0; // this one fails (the first is 1); 0: none
    std::uint64_t one_in = 0;  // and so does one in so many, by the seed; 0: none
    std::uint64_t failed = 0;

    bool next(const char *call);
};

/** Every byte that a node's modules allocate. */
class Memory {
public:
    void *allocate(std::size_t size, bool zeroed, bool charged = false);
    void release(void *memory);
    /** Whether all of it is one allocation; place is where in it. */
    bool holds(const void *memory, std::size_t size, std::size_t &place) const;
    std::size_t blocks() const { return blocks_.size(); }
    std::size_t bytes() const { return bytes_; }
    /** What of it programs pay for, as it was allocated for them. */
    std::size_t charged_bytes() const { return charged_bytes_; }
    /** Fails the run when anything is still allocated. */
    void expect_empty(const char *owner) const;
    /** The machine is gone, and its memory with it. */
    void forget();

private:
    struct Block {
        std::size_t size;
        std::uint64_t serial;
        bool charged;
    };
    std::map<std::uintptr_t, Block> blocks_;
    std::size_t bytes_ = 0, charged_bytes_ = 0;
    std::uint64_t serial_ = 0;
};

/** A work that waits for its time or for a thread. */
struct PendingWork {
    kapi_workqueue *queue;
    TimerId timer;
};

/** How much longer its callbacks have had the processor than others, at a time of the world's. */
struct TurnDebt {
    std::uint64_t ns = 0, since_ns = 0;
};

/** A machine. Destroying it through the world reports what it leaked. */
class Node {
public:
    Node(World &world, const std::string &name, unsigned index);
    ~Node();
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;

    static Node *current(); // of the running task; null outside of any node

    World &world() { return world_; }
    const std::string &name() const { return name_; }
    unsigned index() const { return index_; }
    Memory &memory() { return memory_; }
    Faults &faults() { return faults_; }

    kapi_net &initial_net() { return *nets_.front(); }
    kapi_net &add_net();
    /** The namespace's addresses and TCP connections vanish; core must have closed its streams and listeners. */
    void remove_net(kapi_net &net);
    const std::vector<std::unique_ptr<kapi_net>> &nets() const { return nets_; }

    kapi_module &load_module(const std::string &name);
    /** Marks it unloading unless it has references (false). */
    bool start_unload(kapi_module &module);
    void unload_done(kapi_module &module);

    /**
     * Stands still for a time: none of its tasks runs, arriving packets wait, timers are late. One that sleeps (a suspend)
     * does not notice the time by its monotonic clock, and its timers wait as much longer.
     */
    void pause(std::uint64_t duration_ns, bool sleeps);
    bool is_paused() const { return resumes_at_ns_ != 0; }
    std::uint64_t resumes_at_ns() const { return resumes_at_ns_; }
    void hold(TaskRef task) { held_.push_back(std::move(task)); } // until it continues
    /** Its monotonic clock, and when in the world's time that will show local_ns if nothing happens to it. */
    std::uint64_t now_ns() const;
    std::uint64_t world_time(std::uint64_t local_ns) const;
    /** Its wall clock, which its administrator may set; nanoseconds from the world's. */
    std::int64_t real_offset_ns = 0;
    /** How far its processors' clocks for tracing are apart at most. */
    std::uint64_t local_clock_spread_ns = 0;
    TurnDebt turn_debt;

    /** Stops as if the power failed: tasks, memory and TCP are gone, without notification. From outside of its tasks. */
    void crash();
    /** Called by the world at its end: nothing may be left. */
    void end();
    /** Waits (from a task) until all releases handed to kapi_free_rcu before have run. */
    void rcu_barrier();
    void free_rcu(kapi_rcu *head, void (*release)(kapi_rcu *));

    /** A host object that a crash takes along; disown() when it ends by itself. */
    void adopt(void *object, void (*destroy)(void *)) { host_objects_[object] = destroy; }
    void disown(void *object) { host_objects_.erase(object); }

    void *slots[KAPI_SLOTS] = {}; // roots of the modules' state
    std::map<kapi_work *, PendingWork> pending_works;
    std::map<kapi_work *, TaskRef> running_works;
    std::multiset<kapi_work *> cancelled_works; // by calls that still wait
    std::vector<const Spin *> held_locks; // by any of its tasks
    WaitList work_done; // woken whenever a work ends
    std::optional<std::vector<bool>> announced; // when it is there: of each kapi_stream_send(), whether more was to follow
    std::uint64_t works_run = 0, work_requests = 0; // of kapi_work_queue()
    std::vector<std::string> log; // lines of its modules
    std::optional<std::vector<std::string>> traced; // the events of tracepoints, as lines, if a test wants them
    Reports reports;
    Descriptors descriptors;
    std::uint64_t next_socket_key = 1;
    std::size_t charged_to_sockets = 0; // what waits in programs' sockets, charged to those
    std::map<unsigned, std::size_t> charged_to_users; // the same
    std::size_t socket_memory = ~std::size_t{0};      // which all of them share
    /** What arrived on programs' TCP sockets and core keeps, in its own memory and in buffers; how much their share allows. */
    std::size_t kept_by_core = 0, kept = 0, kept_limit = ~std::size_t{0};
    std::size_t total_memory = std::size_t{8} << 30;
    kapi_u32 wmem_max = 212992, rmem_max = 212992; // net.core.*
    /** Memory that is not charged. */
    std::size_t uncharged_bytes() const
    {
        return memory_.bytes() - memory_.charged_bytes() - charged_to_sockets - kept_by_core;
    }
    std::map<std::string, unsigned> live_rdma; // objects by kind
    unsigned pinned_pages = 0, memlock_pages = ~0u; // of its programs, and how many they may have
    /** Files on persistent memory that its programs have mapped, by address: such memory cannot be pinned. */
    struct DaxFile {
        std::size_t length;
        bool mapped, writable;
    };
    std::map<std::uintptr_t, DaxFile> dax_files;
    /** Counts crashes. */
    unsigned life() const { return generation_; }
    unsigned live_filters = 0;
    unsigned live_streams = 0, live_listeners = 0, live_sockets = 0, live_pages = 0, live_queues = 0;

private:
    kapi_net &make_net(bool initial);
    struct Dying {
        kapi_rcu *head;
        void (*release)(kapi_rcu *);
        std::vector<std::pair<std::weak_ptr<Task>, std::uint64_t>> readers; // atomic tasks and their quiet_states then
    };
    void resume();
    void try_release(std::uint64_t key);
    void release_now(std::uint64_t key);

    World &world_;
    std::string name_;
    unsigned index_;
    Memory memory_;
    Faults faults_;
    std::vector<std::unique_ptr<kapi_net>> nets_;
    std::vector<std::unique_ptr<kapi_module>> modules_;
    std::map<std::uint64_t, Dying> dying_;
    std::map<void *, void (*)(void *)> host_objects_;
    std::uint64_t next_dying_ = 1;
    std::vector<TaskRef> held_;         // that would run were it not paused
    std::uint64_t resumes_at_ns_ = 0;   // 0: not paused
    std::uint64_t asleep_since_ns_ = 0; // its own time; 0: its clock runs
    std::uint64_t clock_lag_ns_ = 0;    // its monotonic clock behind the world's
    unsigned generation_ = 0; // counts crashes: timers of an earlier life do nothing
    WaitList released_;
};

/** The memory that kapi_alloc takes from now: of the current node, or of no node. */
Memory &current_memory();
/** Whether there is a cgroup that a charged allocation is charged to. */
bool somebody_pays();
/** Whether this fallible call fails now. */
bool fault(const char *call);

} // namespace sim
