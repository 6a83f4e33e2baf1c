// SPDX-License-Identifier: GPL-2.0
#include "waiting.h"

namespace rds_tcp {

bool Waiting::put(kapi_stream* stream, u16 peer_port, kapi_stream*& replaced)
{
    if (count_ == max)
        replaced = take_abandoned();
    if (count_ == max)
        return false;
    port_[count_] = peer_port;
    stream_[count_++] = stream;
    return true;
}

kapi_stream* Waiting::take(unsigned position)
{
    if (position >= count_)
        return nullptr;
    kapi_stream* stream = stream_[position];
    count_--;
    for (unsigned i = position; i < count_; i++) {
        stream_[i] = stream_[i + 1];
        port_[i] = port_[i + 1];
    }
    return stream;
}

// The oldest that its peer left with nothing in it for us.
kapi_stream* Waiting::take_abandoned()
{
    for (unsigned i = 0; i < count_; i++) {
        struct kapi_stream_health health;
        kapi_stream_health(stream_[i], &health);
        if ((health.eof || health.closed) && !health.unread)
            return take(i);
    }
    return nullptr;
}

} // namespace rds_tcp
