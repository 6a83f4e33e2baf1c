// SPDX-License-Identifier: GPL-2.0
#include "chunk.h"

#include "path.h"

namespace rtrs_srv {

void Chunk::begin(Connection& connection, u32 offset)
{
    op.connection = &connection;
    op.offset = offset;
    op.error = 0;
    op.given = false;
    op.step = Operation::Step::begins;
    connection.path().operation_began();
}

Chunk::Arrival Chunk::arrived(Connection& connection, u32 offset, Held& held)
{
    Guard guard(lock_);
    if (!busy_ && first_ && after_ == &connection.path())
        forget_all(); // the path lives, so they came over others, which the client has lost
    if (!busy_ && !first_) {
        busy_ = true;
        op.follows_read = false;
        begin(connection, offset);
        return Arrival::begins;
    }
    if (held.connection)
        return Arrival::refused;
    held = {&connection, offset, connection.path().beats(), busy_, nullptr};
    *end_ = &held;
    end_ = &held.next;
    return Arrival::waits;
}

void Chunk::begin_first()
{
    Held* held = first_;
    first_ = held->next;
    if (!first_)
        end_ = &first_;
    busy_ = true;
    op.follows_read = op.follows_read && held->lay_there;
    begin(*std::exchange(held->connection, nullptr), held->offset);
}

void Chunk::forget_all()
{
    for (; first_; first_ = first_->next)
        first_->connection = nullptr;
    end_ = &first_;
}

namespace {

bool is_live(const Held& held)
{
    return held.connection->path().has_lived_since(held.beats);
}

} // namespace

// What came before one that is live was lost; what came behind it may be its repetition. False: none is known to be live.
bool Chunk::forget_before_live()
{
    const Held* live = nullptr;
    for (const Held* held = first_; held; held = held->next)
        if (is_live(*held))
            live = held;
    for (; live && first_ != live; first_ = first_->next)
        first_->connection = nullptr;
    return live != nullptr;
}

bool Chunk::release()
{
    op.message.forget();
    Guard guard(lock_);
    busy_ = false;
    if (!first_)
        return false;
    // One that was never given to the user says nothing about the bytes; what was there before it still holds.
    if (op.given) {
        op.follows_read = op.request.is_read;
        last_data_bytes_ = op.request.data_bytes;
    }
    after_ = &op.connection->path();
    if (!forget_before_live() && &first_->connection->path() != after_ && !after_->is_quiet())
        return false;
    begin_first();
    return true;
}

bool Chunk::path_ended(const Path& path)
{
    Guard guard(lock_);
    if (busy_ || !first_ || after_ != &path)
        return false;
    begin_first();
    return true;
}

bool Chunk::path_lives(const Held& held, bool& unknown)
{
    Guard guard(lock_);
    if (!held.connection)
        return false;
    if (!is_live(held)) {
        unknown = true;
        return false;
    }
    if (busy_)
        return false; // release() looks again
    forget_before_live();
    begin_first();
    return true;
}

void Chunk::forget(Held& held)
{
    Guard guard(lock_);
    if (!held.connection)
        return;
    Held** at = &first_;
    while (*at != &held)
        at = &(*at)->next;
    *at = held.next;
    if (end_ == &held.next)
        end_ = at;
    held.connection = nullptr;
}

bool Chunk::is_invalidating(const Path& path)
{
    Guard guard(lock_);
    return busy_ && &op.connection->path() == &path && op.step == Operation::Step::invalidating;
}

bool Chunk::is_damaged() const
{
    return op.follows_read && !(op.request.is_read && op.request.data_bytes >= last_data_bytes_);
}

Chunks::~Chunks() { free(); }

void Chunks::free()
{
    for (u32 i = 0; i < count_; i++)
        if (!leaked_.load_relaxed())
            kapi_free(chunks_[i].memory);
    kapi_free(static_cast<void*>(std::exchange(chunks_, nullptr)));
    count_ = 0;
    if (leaked_.load_relaxed())
        share_.leak();
    share_ = Share();
}

Result<> Chunks::make(const Geometry& geometry, Budget& budget)
{
    u32 count = geometry.queue_depth();
    share_ = TRY(Share::of(budget, geometry.total_bytes() + count * sizeof(Chunk)));
    chunks_ = static_cast<Chunk*>(kapi_zalloc(count * sizeof(Chunk), KAPI_SLEEP));
    for (; chunks_ && count_ < count; count_++) {
        Chunk* chunk = ::new (&chunks_[count_]) Chunk;
        chunk->op.chunk = count_;
        chunk->memory = static_cast<u8*>(kapi_alloc_contiguous(geometry.chunk_bytes()));
        if (!chunk->memory)
            break;
    }
    if (chunks_ && count_ == count)
        return {};
    free();
    return fail(KAPI_ENOMEM);
}

} // namespace rtrs_srv
