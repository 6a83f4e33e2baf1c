// SPDX-License-Identifier: GPL-2.0
// A multiplexor: the sockets and the connections that belong together.
//
// It exists as long as one of its sockets is open or still sends; then its connections are given back.
#pragma once

#include "../lock_order.h"
#include "glue/kcm_core.h"
#include "id_table.h"
#include "psock.h"

#include <utility>

namespace kcm {

class Net;
struct WorkQueue;
struct Muxes;    // list tag: of a namespace
struct ByNumber; // table tag: the same

class Mux : public RefCounted<Mux>, public ListNode<Muxes>, public HashNode<ByNumber> {
public:
    static Result<Ref<Mux>> create(Net& net);
    static void destroy(Mux* mux) { dispose(mux); }

    Net& net; // until it is removed from there
    kapi_net* const host;
    Distributor distributor;
    Reservations reservations;
    kapi_workqueue* workqueue() const; // for works of its user

    // Sockets. ENFILE: there are too many.
    Result<> add(Socket& socket);
    // socket is closed and has nothing left to send. The last one gives the connections back. Sleeps.
    void remove(Socket& socket);

    // A socket is closed that has yet to send so many bytes. False: others have so much already that it is to send no more. Any
    // context, as the following: it has so many more to send, or fewer.
    [[nodiscard]] bool start_draining(u64 bytes);
    void count_draining(u64 bytes);
    void forget_draining(u64 bytes);

    // Connections. Sleep. ENFILE: there are too many.
    Result<> attach(int fd, int bpf_fd, u32 max_message);
    // Waits until a message that is being sent is with TCP: EAGAIN or EINTR when that takes longer than deadline or is
    // interrupted; then nothing has changed. ENOENT: fd is not attached here. EALREADY: another call waits for it already.
    Result<> unattach(int fd, u64 deadline_ns);
    bool has_connections(); // that have not failed; one that is being unattached is still there
    // Null: no such connection.
    Ref<Psock> find(u64 id);
    // The connection whose TCP socket fd is. ENOENT. Sleeps.
    Result<Ref<Psock>> find_by_fd(int fd);
    u64 next_id() { return ids_.fetch_add(1); }
    // From Psock::fail(). True: it was the last one that had not failed. Any context.
    bool connection_failed(Psock& psock);
    // Reports it to the sockets, and to the queues that wait to send on it. Sleeps; the time grows with their number.
    void report_failure(Psock& psock, bool was_last);
    // psock, which has failed, was read on, maybe to its end: if nobody can unattach it, it may go now. Any context.
    void read_on(Psock& psock);
    // A socket begins or ceases to want a report of every connection that ends.
    void count_watcher(bool on) { on ? watchers_.fetch_add(1) : watchers_.fetch_sub(1); }

    // A connection that has failed may hold something that its sockets are to receive before its error; or no more. True:
    // report_rest_read() is due. Any context.
    void count_rest() { rests_.fetch_add(1); }
    [[nodiscard]] bool forget_rest() { return rests_.fetch_sub(1) == 1 && held_back_.exchange(0); }
    // True: an error has to wait, and report_rest_read() follows.
    [[nodiscard]] bool holds_back()
    {
        if (!rests_.load())
            return false;
        held_back_.exchange(1); // forget_rest() looks the other way round
        return rests_.load() != 0;
    }
    // To sockets that hold an error back. Sleeps; the time grows with their number.
    void report_rest_read();

    // A message was resent from its beginning, on another connection.
    void count_retry() { tx_retries_.fetch_add(1); }

    // The position of a walk along the sockets (T = Socket) or the connections (Psock).
    template <class T> struct Place {
        unsigned index = 0; // all below were visited
        Ref<T> last;        // one before the next; null: look from the first one on
    };
    // Calls visit(T&) for the next ones, at most so many, under the lock; returns how many they were, 0 at the end. There
    // may be very many, and bottom halves are off under the lock, so it is taken again for each piece. Those added or
    // removed between two pieces are visited or not; all others are, once. Sleeps.
    template <class T, class Visit> unsigned visit_next(Place<T>& place, unsigned most, Visit&& visit)
    {
        for (;;) {
            Ref<T> before = std::move(place.last); // released without the lock: it may be the last reference
            kapi_resched();
            Guard guard(lock_);
            auto& list = list_of(place);
            bool there = before && static_cast<const ListNode<Members>*>(before.get())->linked();
            T* at = there ? list.next(*before) : list.front();
            T* last = there ? before.get() : nullptr;
            unsigned visited = 0;
            for (unsigned steps = 0; at && steps < most; steps++, last = at, at = list.next(*at)) {
                if (at->index < place.index)
                    continue; // the last one went, and those before it are passed over, a piece at a time
                visit(*at);
                visited++;
            }
            if (visited)
                place.index = last->index + 1;
            if (last)
                place.last = Ref<T>::share(*last);
            if (visited || !at)
                return visited;
        }
    }
    // Calls visit(T&) for all of them, as visit_next(). Sleeps.
    template <class T, class Visit> void visit_all(Visit&& visit)
    {
        Place<T> place;
        while (visit_next(place, piece, visit))
            kapi_resched();
    }
    u32 socket_count();
    void add_totals(kcm_totals& totals);
    u64 number = 0; // in its namespace, under that one's lock: a later multiplexor has a larger one

private:
    HW_MADE_BY_CREATE;
    Mux(Net& of, WorkQueue& works);
    ~Mux(); // not inline: a copy in several objects is a section group, which the linker of modules drops
    static constexpr u32 max_sockets = 65536, max_connections = 65536;
    static constexpr unsigned piece = 64; // that are visited at a time
    // Connections that have ended stay for programs to see. Of more than these, some are looked at when another one ends.
    static constexpr unsigned ended_kept = 64, ended_looked_at = 4;
    // Up to here another socket may begin to drain.
    static constexpr u64 drain_limit = 16u << 20, drain_limit_of_user = 64u << 20;

    RefList<Socket, Members>& list_of(const Place<Socket>&) HW_REQUIRES(lock_) { return sockets_; }
    RefList<Psock, Members>& list_of(const Place<Psock>&) HW_REQUIRES(lock_) { return psocks_; }
    template <class T> static void insert_by_index(RefList<T, Members>& list, T& item, u32 members);
    Result<> make_table();
    void insert(Psock& psock) HW_REQUIRES(lock_);
    struct Removed {
        Ref<Psock> member, by_id, ended; // references that go without the lock
        bool was_last = false;           // that had not failed
        kcm_totals counted{};            // of it, in past_
    };
    Removed remove(Psock& psock) HW_REQUIRES(lock_);
    bool no_longer_alive(Psock& psock) HW_REQUIRES(lock_);
    void publish(Psock& psock);
    void note_ended(Psock& psock) HW_REQUIRES(lock_);
    Removed take_forgotten();
    bool retire_forgotten();
    bool has_many_ended();
    void retire_later();
    void give_up_closed();
    void retire_some();
    Removed take_any();
    void retire(const Removed& removed);

    WorkQueue& works_; // of the user who made it
    Spin<MembersLock> lock_;
    RefList<Socket, Members> sockets_ HW_GUARDED_BY(lock_);
    RefList<Psock, Members> psocks_ HW_GUARDED_BY(lock_);
    Own<IdTable<Psock, ById>> by_id_ HW_GUARDED_BY(lock_); // null: nothing was ever attached
    RefList<Psock, Ended> ended_ HW_GUARDED_BY(lock_); // of psocks_, the one that was looked at last is the last
    u32 ended_count_ HW_GUARDED_BY(lock_) = 0;
    u32 socket_count_ HW_GUARDED_BY(lock_) = 0;
    u32 psock_count_ HW_GUARDED_BY(lock_) = 0; // with those that are about to be inserted
    u32 alive_ HW_GUARDED_BY(lock_) = 0;       // connections that have not failed
    kcm_totals past_ HW_GUARDED_BY(lock_){}; // of former sockets and connections
    u32 departures_ HW_GUARDED_BY(lock_) = 0; // how often past_ grew
    bool has_departed_since(u32& departures);
    Atomic<u32> watchers_{0}; // sockets with KCM_ERRORS
    Atomic<u32> rests_{0};    // connections: count_rest()
    Atomic<u32> held_back_{0}; // an error was, since there are some
    Atomic<u64> ids_{1};
    Atomic<u64> tx_retries_{0};
    Atomic<u64> draining_{0}; // bytes that closed sockets have yet to send
    Work<Mux, &Mux::retire_some> retire_work_;
};

} // namespace kcm
