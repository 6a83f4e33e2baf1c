// SPDX-License-Identifier: GPL-2.0
// A multiplexor: the sockets and the connections that belong together.
//
// It lives as long as one of its sockets is open or still sends; then its connections are given back.
#pragma once

#include "glue/kcm_core.h"
#include "psock.h"

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

    // Calls visit(Socket&) and visit(Psock&) for each, under the lock.
    template <class VisitSocket, class VisitPsock> void for_each(VisitSocket&& socket, VisitPsock&& psock)
    {
        Guard guard(lock_);
        for (Socket* s = sockets_.front(); s; s = sockets_.next(*s))
            socket(*s);
        for (Psock* p = psocks_.front(); p; p = psocks_.next(*p))
            psock(*p);
    }
    void add_totals(kcm_totals& totals);

private:
    HW_MADE_BY_CREATE;
    explicit Mux(Net& of) : net(of) {}
    ~Mux() = default;
    static constexpr u32 max_sockets = 65536;

    template <class T> static void insert_by_index(RefList<T, Members>& list, T& item);
    void offer(Psock& psock);
    Ref<Psock> take_by_key(u64 key);
    Ref<Psock> take_any();
    void retire(Psock& psock);

    Spin<MembersLock> lock_;
    RefList<Socket, Members> sockets_ HW_GUARDED_BY(lock_);
    RefList<Psock, Members> psocks_ HW_GUARDED_BY(lock_);
    u32 socket_count_ HW_GUARDED_BY(lock_) = 0;
    kcm_totals past_ HW_GUARDED_BY(lock_){}; // of what is gone
    Atomic<u64> ids_{1};
    Atomic<u64> tx_retries_{0};
};

} // namespace kcm
