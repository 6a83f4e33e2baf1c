// SPDX-License-Identifier: GPL-2.0
// What kapi's calls on streams share.
#pragma once

#include "tcp.h"

namespace sim {

/** Stream calls are made without core locks and never from a stream callback. */
void enter_stream(const char *call);

/** Holds a stream's lock. */
class Locked {
public:
    explicit Locked(Tcb &tcb) : tcb_(tcb.shared_from_this()) { tcb_->lock.lock("a stream's lock"); }
    ~Locked() { tcb_->lock.unlock(); }
    Locked(const Locked &) = delete;
    Locked &operator=(const Locked &) = delete;

private:
    TcbRef tcb_;
};

/** What core holds of a connection, on the account of its machine. */
kapi_stream *make_stream(const TcbRef &tcb, const ProgramSocketRef &socket = nullptr);
void free_stream(kapi_stream *stream);
/** Ends TCP's side of what is closed: the rest of its bytes goes out first unless it must be a reset. */
void let_go(Tcb &tcb, bool abort);

} // namespace sim
