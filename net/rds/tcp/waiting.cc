// SPDX-License-Identifier: GPL-2.0
#include "waiting.h"

namespace rds_tcp {

namespace {

u32 unread(kapi_stream* stream)
{
    struct kapi_stream_health health;
    kapi_stream_health(stream, &health);
    return health.unread;
}

bool is_abandoned(kapi_stream* stream)
{
    struct kapi_stream_health health;
    kapi_stream_health(stream, &health); // an end that is seen has nothing behind it
    return (health.eof || health.closed) && !health.unread;
}

} // namespace

// Not of one that others can take meanwhile.
void Waiting::look_at(Entry& entry)
{
    std::byte header[RDS_HEADER_SIZE];
    kapi_size size = kapi_stream_peek(entry.stream, header, sizeof(header));
    entry.looked = size == sizeof(header);
    entry.rank = !size ? silent : entry.looked && rds_conn_is_peers(conn_, header) ? peers : speaks;
}

// The next one whose first bytes came in and are not known.
kapi_stream* Waiting::begin_look()
{
    for (unsigned i = 0; i < count_; i++) {
        Entry& entry = entry_[i];
        if (entry.looked || entry.looking)
            continue;
        u32 bytes = unread(entry.stream);
        entry.rank = bytes ? speaks : silent;
        if (bytes < RDS_HEADER_SIZE)
            continue;
        entry.looking = true;
        return entry.stream;
    }
    return nullptr;
}

void Waiting::look()
{
    for (Entry found{};;) {
        {
            Guard guard(lock_);
            for (unsigned i = 0; i < count_ && found.stream; i++) {
                if (entry_[i].stream != found.stream)
                    continue;
                entry_[i].rank = found.rank;
                entry_[i].looked = true;
                entry_[i].looking = false;
            }
            found.stream = begin_look();
        }
        looked_.wake();
        if (!found.stream)
            return;
        look_at(found);
    }
}

kapi_stream* Waiting::put(kapi_stream* stream, u16 peer_port, unsigned limit, bool is_first)
{
    Entry entry{stream, peer_port, silent, false, false};
    look_at(entry);
    look();
    Guard guard(lock_);
    kapi_stream* replaced = nullptr;
    if (count_ >= limit) {
        unsigned position = least(entry.rank);
        if (position == count_)
            return stream;
        replaced = remove(position); // what it counted as, the new one does
    } else if (!is_first || count_) {
        counted_++;
        rds_conn_stream_added(conn_);
    }
    entry_[count_++] = entry;
    return replaced;
}

// A stream of the peer makes room for a newer one of the peer only.
unsigned Waiting::least(Rank newcomer)
{
    unsigned found = count_;
    for (unsigned i = 0; i < count_; i++) {
        if (entry_[i].looking || (entry_[i].rank == peers && newcomer != peers))
            continue;
        if (is_abandoned(entry_[i].stream))
            return i;
        if (found == count_ || entry_[i].rank < entry_[found].rank)
            found = i;
    }
    return found;
}

kapi_stream* Waiting::remove(unsigned position)
{
    kapi_stream* stream = entry_[position].stream;
    count_--;
    for (unsigned i = position; i < count_; i++)
        entry_[i] = entry_[i + 1];
    return stream;
}

// It ends, or is adopted, and counts as that of its path from now on: then those that are left are further ones.
kapi_stream* Waiting::take_out(unsigned position)
{
    kapi_stream* stream = remove(position);
    if (counted_ > count_) {
        counted_--;
        rds_conn_stream_gone(conn_);
    }
    return stream;
}

kapi_stream* Waiting::take_abandoned()
{
    Guard guard(lock_);
    for (unsigned i = 0; i < count_; i++)
        if (!entry_[i].looking && is_abandoned(entry_[i].stream))
            return take_out(i);
    return nullptr;
}

} // namespace rds_tcp
