// SPDX-License-Identifier: GPL-2.0
// A connection has ended: nothing more is sent on it, and its sockets are notified. What came before is read on.
#include "mux.h"
#include "psock.h"
#include "socket.h"

namespace kcm {

void Psock::fail(int error, bool unreadable)
{
    int none = 0;
    if (unreadable) {
        stopped_.store_release(1);
        shortage->stop(*this);
    }
    if (!error_.compare_exchange(none, error))
        return;
    rx_aborts.add(1);
    if (unreadable)
        count_bad_message(error);
    if (kapi_traces(KAPI_TRACE_KCM_END))
        kapi_trace_kcm_connection(KAPI_TRACE_KCM_END, id, error);
    kapi_log(KAPI_LOG_DEBUG, "kcm: multiplexor %llu connection %llu has ended: error %d",
             static_cast<unsigned long long>(mux->number), static_cast<unsigned long long>(id), error);
    kapi_stream_post_error(stream_, error);
    bool reads_on = receives();
    if (reads_on) { // before another one can be the last and be reported
        mux->count_rest();
        rest_.exchange(1);
    }
    was_last = mux->connection_failed(*this);
    if (reads_on)
        resume_later(); // looks for it
    ref();
    if (!failure_work_.queue(mux->workqueue()))
        unref();
}

// In work of its own, which may end after detach(): there may be very many sockets.
void Psock::report_failure()
{
    changed(Changes::ended);
    mux->report_failure(*this, was_last);
    unref();
}

// Unread bytes alone say nothing: they may be what is never offered.
bool Psock::has_rest() const
{
    if (!receives())
        return false;
    if (!offered_.load())
        return true;
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health);
    return health.to_offer != 0;
}

bool Psock::lacks_memory_too_long() const
{
    u64 since = no_memory_since_ns_.load_relaxed();
    return since && kapi_now_ns() - since >= Shortage::patience_ns;
}

// After it has failed. For a connection that is not paused nobody goes on: TLS reads in work of its own, or a packet comes now.
// What lacks memory may lack it for as long as programs do not read from other sockets: its error waits a limited time.
void Psock::look_for_rest()
{
    if (!rest_.load())
        return;
    if (has_rest() && !lacks_memory_too_long()) {
        if (!paused())
            resume_later(rest_retry_ns);
        return;
    }
    if (!rest_.exchange(0))
        return;
    if (!mux->forget_rest())
        return;
    ref();
    if (!rest_work_.queue(mux->workqueue()))
        unref();
}

// In work of its own, as report_failure().
void Psock::report_rest_read()
{
    mux->report_rest_read();
    unref();
}

bool Psock::is_forgotten() const
{
    return failed() && offered_.load_acquire() && kapi_stream_is_unused(stream_) && !has_rest();
}

// TCP has the same errors for other reasons.
void Psock::count_bad_message(int error)
{
    if (error == KAPI_EMSGSIZE)
        rx_too_big.add(1);
    else if (error == KAPI_ETIMEDOUT)
        rx_timeouts.add(1);
    else if (error == KAPI_EPROTO)
        rx_bad_length.add(1);
}

} // namespace kcm
