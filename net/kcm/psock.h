// SPDX-License-Identifier: GPL-2.0
// A connection of a multiplexor: a program's TCP socket, taken over, with the parser that cuts what it receives.
//
// It ends for its users at the first error or when the peer closes, and stays attached until it is detached.
#pragma once

#include "changes.h"
#include "counter.h"
#include "distributor.h"
#include "glue/kcm_core.h"
#include "parser.h"
#include "reservations.h"
#include "shortage.h"
#include "uapi.h"

#include <hawser/work.h>
#include <kapi/stream.h>
#include <kapi/trace_kcm.h>

namespace kcm {

struct Members; // list tag: sockets and connections of a multiplexor
struct ById;    // list tag: connections of a multiplexor
struct Ended;   // list tag: connections of a multiplexor that have failed

class Psock : public RefCounted<Psock>, public ListNode<Members>, public ListNode<ById>, public ListNode<Ended>,
              public ListNode<Available>, public ListNode<Blocked>, public ListNode<Starved> {
public:
    // Takes the TCP socket fd over. max_message 0: as much as its SO_RCVBUF. Sleeps. As kapi_stream_adopt() and
    // kapi_filter_get(), in the order in which the kernel's own finds faults.
    static Result<Ref<Psock>> create(Mux& mux, int fd, int bpf_fd, u32 max_message);
    static void destroy(Psock* psock);

    const Ref<Mux> mux;
    const u64 id;
    // Of the TCP socket. After create() constant.
    const kapi_addr& local() const { return local_; }
    const kapi_addr& remote() const { return remote_; }
    const Ref<Shortage> shortage; // of who attached it
    u64 id_in_table() const { return id; }
    unsigned index = 0;   // in the multiplexor's list, under its lock
    bool was_last = false; // no other was alive when it failed; from fail() to report_failure()
    bool alive = false;   // counts among its connections that have not failed, under its lock
    bool leaving = false; // a call waits to unattach it, under its lock
    Lane lane;          // under the reservations' lock
    Parts parts;        // under the lock of the shortage

    // Callbacks begin, and the end of the connection is noticed. Sleeps.
    void start();
    // Messages are received, beginning with those that are there, in work of its own. Any context.
    void begin();
    // After Reservations::remove(), with no sender. Gives the TCP socket back with what was not delivered; a
    // connection that is to be reset is. Sleeps.
    void detach();
    // Ends it, once; the owner of the TCP socket finds error there. What TCP has already is still received, unless it
    // cannot be. Any context.
    void fail(int error, bool unreadable = false);
    // These Changes have happened: programs that listen are notified. Any context, but not under a lock.
    void changed(u32 changes);
    bool failed() const { return error_.load_acquire() != 0; }
    int error() const { return error_.load_acquire(); }
    bool receives() const { return !stopped_.load_acquire(); }
    // It has failed, and neither is anything left to be received nor can a program unattach it any more.
    bool is_forgotten() const;
    // What fail() left undone because it may not sleep: a message that was cut short resets the connection.
    void mark_for_reset() { reset_.store_release(1); }
    bool is_to_be_reset() const { return reset_.load_acquire() != 0; }
    kapi_give_back ending() const; // of its stream
    kapi_stream* stream() const { return stream_; }

    // Ends soon: the memory that it holds is needed. Any context.
    void give_way();
    void stay() { gives_way_.store_release(0); } // under the lock of the shortage, as it has got memory
    bool gives_way() const { return gives_way_.load_acquire() != 0; }
    // Goes on reading, in work of its own. Any context.
    void resume_later(u64 delay_ns = 0);

    // Of the transmitter that owns it: a queue waits for room in TCP.
    void expect_room(bool expected) { room_expected_.store_release(expected); }
    bool expects_room() const { return room_expected_.load_acquire() != 0; }

    // Of the parser.
    u32 message_limit() const { return max_message_ ? max_message_ : min(kapi_stream_rcvbuf(stream_), most_of_rcvbuf); }
    unsigned run_limit() const;
    bool may_deliver();
    void deliver(Ref<Bundle> bundle);

    void add_totals(kcm_totals& totals) const;
    void describe(kcm_abi_connection_stats& stats);

    u32 partial() const { return partial_bytes_.load_relaxed(); }
    u32 needed() const { return needed_bytes_.load_relaxed(); }
    bool paused() const { return paused_.load_relaxed() != 0; }
    u64 needed_more() const { return parser_.needed_more(); }

    // Receiving counts in rx(), sending and reservations by the owner or under the reservations' lock.
    Counter rx_msgs, rx_bytes, tx_msgs, tx_bytes, reserved, unreserved, tx_aborts;
    Counter rx_aborts, rx_no_memory, rx_bad_length, rx_too_big, rx_timeouts;

private:
    // A part of a message is held, and copied when it is given back: a namespace's administrator may have 2 GiB as SO_RCVBUF.
    static constexpr u32 most_of_rcvbuf = 256u << 20;
    static constexpr u64 rest_retry_ns = 10'000'000;

    HW_MADE_BY_CREATE;
    Psock(Mux& mux, Ref<Shortage> shortage, Filter filter, u32 max_message);
    ~Psock();

    static kapi_size rx(void* context, kapi_rx* offer, kapi_size length);
    static void acked(void* context, u32 una);
    static void event(void* context, kapi_stream_event event, int error);
    usize receive(kapi_rx* offer, usize length);
    void count_bad_message(int error);
    u64 assembly_timeout_ns() const;
    void wait_for_memory();
    void end_for_others();
    void watch_assembly();
    void resume();
    void check_assembly();
    void report_failure();
    bool has_rest() const;
    bool lacks_memory_too_long() const;
    void look_for_rest();
    void report_rest_read();
    static const kapi_stream_ops stream_ops;

    kapi_stream* stream_ = nullptr; // until detach()
    kapi_addr local_{}, remote_{};
    Changes changes_;
    Parser parser_;                 // in rx()
    const u32 max_message_;
    Wakes* wakes_ = nullptr;        // in rx(): to be woken at its end
    bool had_ended_ = false;        // its peer's side, before start(); constant afterwards
    Atomic<u32> starting_{1};       // until begin()
    Atomic<u32> offered_{0};        // what was there at the beginning
    Atomic<int> error_{0};          // that ended it
    Atomic<u32> rest_{0};           // what came before that may not all be read; counted in the multiplexor
    Atomic<u32> stopped_{0};        // receives no more
    Atomic<u32> reset_{0};
    Atomic<u32> gives_way_{0};      // is to end: its memory is needed
    bool starves_ = false;          // in rx(): waits for memory
    Atomic<u64> no_memory_since_ns_{0}; // it got none since; 0: it waits for none
    Atomic<u32> room_expected_{0};
    Atomic<u32> partial_bytes_{0}, needed_bytes_{0}, paused_{0};
    u64 assembled_ = 0;             // in rx(): the message that was watched last
    u64 assembly_spent_ns_ = 0;     // in rx(): its time until it was paused
    Atomic<u64> assembly_since_ns_{0}; // a message is not whole since; 0: none is
    Atomic<u64> assembly_due_ns_{KAPI_FOREVER}; // that is checked; no later than this
    Work<Psock, &Psock::resume> resume_work_;
    Work<Psock, &Psock::check_assembly> assembly_work_;
    Work<Psock, &Psock::report_failure> failure_work_; // once
    Work<Psock, &Psock::report_rest_read> rest_work_; // once
};

} // namespace kcm
