// SPDX-License-Identifier: GPL-2.0
// The program's side of a call: messages with user memory that may fault, sockets, polls.
#pragma once

#include <kapi/socket.h>
#include <kapi/types.h>
#include <kapi/wait.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace sim {
class Node;
class PollWatch;
} // namespace sim

struct kapi_msg {
    static constexpr std::size_t never = ~std::size_t{0};

    unsigned char *memory = nullptr; // the program's buffer, one piece
    std::size_t size = 0;
    std::size_t at = 0;
    std::size_t fault_at = never;   // touching this byte faults
    std::size_t stall_at = never;   // touching this byte takes stall_ns (userfaultfd, a slow disk)
    std::size_t stall_every = 0;    // so does each that is a multiple of these bytes behind it; 0: no other
    std::uint64_t stall_ns = 0;
    std::size_t control_room = 0;
    bool control_faults = false;    // the program's memory for control messages is bad
    bool control_truncated = false;
    struct Control {
        int level, type;
        std::vector<unsigned char> data;
    };
    std::vector<Control> control;
};

struct kapi_optval {
    unsigned char *memory = nullptr;
    std::size_t size = 0; // accesses beyond it fault
};

namespace sim {

/** SO_SNDBUF or SO_RCVBUF of a socket, as the kernel keeps them. */
class BufferSize {
public:
    operator kapi_u32() const { return bytes_; }
    BufferSize &operator=(kapi_u32 bytes)
    {
        bytes_ = bytes;
        set_ = true;
        return *this;
    }
    bool is_set() const { return set_; }

private:
    kapi_u32 bytes_ = 212992;
    bool set_ = false;
};

} // namespace sim

struct kapi_sk {
    sim::Node *node = nullptr;
    kapi_net *net = nullptr;
    void (*destructor)(void *core) = nullptr;
    void *core = nullptr; // the core's object, given to the destructor
    unsigned references = 1;
    sim::BufferSize sndbuf, rcvbuf;
    kapi_u64 sndtimeo_ns = KAPI_FOREVER, rcvtimeo_ns = KAPI_FOREVER;
    int error = 0;
    unsigned signals_in = 0, signals_out = 0; // SIGIO
    bool zerocopy = false;
    int timestamps = 0; // 0, SO_TIMESTAMP_OLD or SO_TIMESTAMP_NEW
    int ifindex = 0;
    kapi_u64 inode = 0;
    unsigned user = 0;
    std::size_t charged = 0, charge_limit = ~std::size_t{0}; // memory, and what the program's cgroup allows
};

struct kapi_poll {
    sim::PollWatch *watch = nullptr; // null: the poll does not wait
    unsigned wanted = 0;             // wake-ups for other events pass it by, as in the kernel
    bool woken = false;
    bool exclusive = false, sleeps = false; // EPOLLEXCLUSIVE; a thread is in epoll_wait()
    unsigned queues = 0;             // that it was given
};

namespace sim {

/** The queues that a poll in progress watches; end() before the poll returns. */
class PollWatch {
public:
    PollWatch() = default;
    ~PollWatch() { end(); }
    PollWatch(const PollWatch &) = delete;
    PollWatch &operator=(const PollWatch &) = delete;
    void add(kapi_waiter *watch) { watches_.push_back(watch); }
    void end();

private:
    std::vector<kapi_waiter *> watches_;
};

/** A program in poll() or epoll_wait() on one socket, whose poll operation is ask(). It ends before the socket. */
class Poller {
public:
    enum class Kind { poll, epoll, epoll_edge, epoll_exclusive };
    using Ask = std::function<unsigned(kapi_poll *)>;

    /** With epoll: calls the poll operation, and watches the queues from here on, as EPOLL_CTL_ADD. */
    Poller(Ask ask, unsigned wanted, Kind kind);
    /** Sleeps until an event is there. Returns those that are, or 0 when timeout_ns passed before. */
    unsigned wait(std::uint64_t timeout_ns);

private:
    unsigned ask(PollWatch *watch);

    Ask ask_;
    Kind kind_;
    PollWatch watch_;
    kapi_poll poll_;
};

/** What goes wrong with a program's memory in a call: a byte faults, or takes its time. */
struct Trouble {
    std::size_t fault_at = kapi_msg::never, stall_at = kapi_msg::never;
    std::size_t stall_every = 0;
    std::uint64_t stall_ns = 0;
    bool control_faults = false;
};
/** The message argument of a call that gives, or gets, these bytes. */
kapi_msg make_msg(const void *data, std::size_t size, const Trouble &trouble);

/** A socket on the current node, with one reference for its file; it holds its namespace. */
kapi_sk *make_sk(kapi_net &net);

} // namespace sim
