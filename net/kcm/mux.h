// SPDX-License-Identifier: GPL-2.0
// A multiplexor: the sockets and the connections that belong together.
//
// It lives as long as one of its sockets is open or still sends; then its connections are given back.
#pragma once

#include "glue/kcm_core.h"
#include "psock.h"

#include <utility>

namespace kcm {

class Net;
struct Muxes; // list tag: of a namespace

struct MembersLock { static constexpr const char* name = "kcm members"; static constexpr unsigned rank = 20; };

class Mux : public RefCounted<Mux>, public ListNode<Muxes> {
public:
    static Result<Ref<Mux>> create(Net& net);
    static void destroy(Mux* mux) { dispose(mux); }

    Net& net;
    Distributor distributor;
    Reservations reservations;
    kapi_workqueue* workqueue() const;

    // Sockets. ENFILE: there are too many.
    Result<> add(Socket& socket);
    // socket is closed and has nothing left to send. The last one gives the connections back. Sleeps.
    void remove(Socket& socket);

    // Connections. Sleep.
    Result<> attach(int fd, int bpf_fd, u32 max_message);
    // Waits until a message that is being sent is with TCP: EAGAIN or EINTR when that takes longer than deadline or is
    // interrupted; then nothing has changed. ENOENT: fd is none of ours.
    Result<> unattach(int fd, u64 deadline_ns);
    bool has_connections(); // that have not failed
    // Null: no such connection.
    Ref<Psock> find(u64 id);
    u64 next_id() { return ids_.fetch_add(1); }
    // From Psock::fail(). Any context.
    void connection_failed(Psock& psock, int error);

    // A message was resent from its beginning, on another connection.
    void count_retry() { tx_retries_.fetch_add(1); }

    // How far somebody has walked along the sockets (T = Socket) or the connections (Psock): behind the last one he visited.
    template <class T> struct Place {
        Ref<T> last;
        unsigned index = 0; // of last, when it was visited
    };
    // Calls visit(T&) for the next ones, at most so many, under the lock; says how many they were. There may be very many,
    // and bottom halves are off under the lock, so that it is taken anew for each piece. Who comes or goes between two
    // pieces is visited or not; everybody else is, once.
    template <class T, class Visit> unsigned visit_next(Place<T>& place, unsigned most, Visit&& visit)
    {
        Ref<T> before = std::move(place.last); // goes without the lock: nobody else may hold it any more
        Guard guard(lock_);
        auto& list = list_of(place);
        T* last = nullptr;
        unsigned count = 0;
        for (T* at = behind(list, before.get(), place.index); at && count < most; at = list.next(*at), count++) {
            visit(*at);
            last = at;
        }
        if (last)
            place = {Ref<T>::share(*last), last->index};
        return count;
    }
    // Calls visit(T&) for all of them, as visit_next().
    template <class T, class Visit> void visit_all(Visit&& visit)
    {
        Place<T> place;
        while (visit_next(place, piece, visit))
            ;
    }
    u32 socket_count();
    void add_totals(kcm_totals& totals);
    u64 number = 0; // in its namespace, under that one's lock: whoever comes later has a larger one

private:
    HW_MADE_BY_CREATE;
    explicit Mux(Net& of) : net(of) {}
    ~Mux() = default;
    static constexpr u32 max_sockets = 65536;
    static constexpr unsigned piece = 64; // that are visited at a time

    RefList<Socket, Members>& list_of(const Place<Socket>&) HW_REQUIRES(lock_) { return sockets_; }
    RefList<Psock, Members>& list_of(const Place<Psock>&) HW_REQUIRES(lock_) { return psocks_; }
    // The first behind one that had this index when it was visited (null: the first of all); it may be gone.
    template <class T> static T* behind(const RefList<T, Members>& list, const T* before, unsigned index)
    {
        if (!before)
            return list.front();
        if (static_cast<const ListNode<Members>*>(before)->linked() && before->index == index)
            return list.next(*before);
        T* at = list.front();
        while (at && at->index <= index)
            at = list.next(*at);
        return at;
    }
    template <class T> static void insert_by_index(RefList<T, Members>& list, T& item, u32 members);
    void offer(Psock& psock);
    Ref<Psock> take_by_key(u64 key);
    Ref<Psock> take_any();
    void retire(Psock& psock);

    Spin<MembersLock> lock_;
    RefList<Socket, Members> sockets_ HW_GUARDED_BY(lock_);
    RefList<Psock, Members> psocks_ HW_GUARDED_BY(lock_);
    u32 socket_count_ HW_GUARDED_BY(lock_) = 0;
    kcm_totals past_ HW_GUARDED_BY(lock_){}; // of what is gone
    u32 departures_ HW_GUARDED_BY(lock_) = 0; // how often past_ grew
    bool has_departed_since(u32& departures);
    Atomic<u64> ids_{1};
    Atomic<u64> tx_retries_{0};
};

} // namespace kcm
