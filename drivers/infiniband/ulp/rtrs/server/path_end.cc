// SPDX-License-Identifier: GPL-2.0
// The end of a path.
#include "path.h"

#include "context.h"

namespace rtrs_srv {

void Path::close()
{
    takes_requests_.store_release(false);
    {
        Guard guard(lock_);
        change(PathEvent::close);
        for (Connection* connection = std::exchange(arrivals_, nullptr); connection; connection = connection->next)
            connection->refused = true;
    }
    end_connections();
    Module::get().devices.leave(user_);
    operation_ended(); // the path's own
}

// What the user still has of the path's requests is in the session's memory alone.
void Path::end_connections()
{
    bool drained = true;
    for (u32 i = 0; i < count_; i++)
        if (connections_[i])
            connections_[i]->stop();
    for (u32 i = 0; i < count_; i++) {
        if (!connections_[i])
            continue;
        if (connections_[i]->refused)
            connections_[i]->reject(Errno(KAPI_ECONNRESET));
        drained = connections_[i]->end() && drained;
    }
    for (u32 i = 0; held_ && i < session_->chunks.count(); i++)
        session_->chunks[i].forget(held_[i]);
    if (!drained) {
        kapi_log(KAPI_LOG_ERR, "rtrs_server: device %s does not end what it was given", device_->attrs.name);
        session_->chunks.leak();
        regions_->leak();
        if (info_response_)
            info_response_.leak();
        for (u32 i = 0; i < session_->chunks.count(); i++) // whose invalidations will never complete
            if (session_->chunks[i].is_invalidating(*this))
                Connection::finish(session_->chunks[i].op);
    }
    info_response_ = Buffer();
    regions_.reset();
    quiet_.store_release(true);
    for (u32 i = 0; held_ && i < session_->chunks.count(); i++)
        if (session_->chunks[i].path_ended(*this))
            Connection::defer(session_->chunks[i].op);
    session_->context().path_is_quiet();
}

// As announce(). One that was never announced has no folder and is unknown to the user: its end must not wait for calls of the
// user, in a queue that all sessions share.
void Path::queue_end()
{
    if (info_ == Info::announces || info_ == Info::given)
        end_.queue(session_->calls());
    else
        leave();
}

// The path is closing until the user knows: another path of the session begins behind that.
void Path::end()
{
    session_->hide(*this);
    if (is_up_)
        session_->path_down();
    leave();
}

void Path::leave()
{
    {
        Guard guard(lock_);
        change(PathEvent::end);
    }
    session_->context().bury(*this);
}

// No device, connection or folder has it, so none of its events can be one that ends it.
void Path::abandon()
{
    Guard guard(lock_);
    change(PathEvent::close);
    change(PathEvent::end);
}

void Path::stop()
{
    work_.cancel_sync(); // it may have armed the timer before the path ended
    timer_.cancel_sync();
    work_.cancel_sync(); // which queues it
    announce_.cancel_sync(); // this and the next have done all, and return
    end_.cancel_sync();
}

} // namespace rtrs_srv
