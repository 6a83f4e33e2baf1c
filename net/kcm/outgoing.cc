// SPDX-License-Identifier: GPL-2.0
#include "outgoing.h"

#include <hawser/steps.h>

namespace kcm {

Result<Ref<Outgoing>> Outgoing::create_new(kapi_msg* msg, u32 size)
{
    auto* made = make<Outgoing>(Alloc::charged, size);
    if (!made)
        return fail(KAPI_ENOMEM);
    auto message = Ref<Outgoing>::adopt(made);
    kapi_pages* pages;
    TRY(check(kapi_pages_from_msg(msg, size, &pages)));
    message->pages_.reset(pages);
    return message;
}

Result<Ref<Outgoing>> Outgoing::create(Ref<Outgoing> used, kapi_msg* msg, u32 size)
{
    u32 part = min(size, part_max);
    Ref<Outgoing> message = TRY(create_part(std::move(used), msg, part));
    while (size -= part) {
        part = min(size, part_max);
        message->append(TRY(create_part(nullptr, msg, part)));
    }
    return message;
}

Result<Ref<Outgoing>> Outgoing::create_part(Ref<Outgoing> used, kapi_msg* msg, u32 size)
{
    if (!used || size > kapi_pages_capacity(used->pages_.get()))
        used = TRY(create_new(msg, size));
    else
        TRY(check(kapi_pages_refill(used->pages_.get(), msg, size)));
    used->begin_again(size);
    return used;
}

void Outgoing::begin_again(u32 size)
{
    own_length_ = length_ = size;
    overhead_ = 0;
    sent_ = sent_before_ = done_ = done_bytes_ = 0;
    at_ = this;
}

Result<> Outgoing::divide(std::span<const u32> lengths)
{
    lengths_.reset(static_cast<u32*>(kapi_alloc(lengths.size_bytes(), KAPI_SLEEP_CHARGED)));
    if (!lengths_)
        return fail(KAPI_ENOMEM);
    kapi_copy(lengths_.get(), lengths.data(), lengths.size_bytes());
    count_ = static_cast<u32>(lengths.size());
    overhead_ = overhead() + static_cast<u32>(kapi_alloc_true_size(lengths.size_bytes()));
    return {};
}

u32 Outgoing::overhead()
{
    if (overhead_)
        return overhead_;
    overhead_ = overhead_of_part;
    if (own_length_ >= small_part)
        overhead_ = max(overhead_, static_cast<u32>(kapi_pages_true_size(pages_.get())) - own_length_);
    return overhead_;
}

// Gives back what it has. False: it is not to be used again.
bool Outgoing::retire()
{
    if (next_ || lengths_ || kapi_pages_capacity(pages_.get()) > kept_max)
        return false;
    kapi_pages_clear(pages_.get());
    return true;
}

// Loops instead of recursing: a message may have many parts.
void Outgoing::destroy(Outgoing* message)
{
    Ref<Outgoing> next = std::move(message->next_);
    dispose(message);
    while (next) {
        Ref<Outgoing> after = std::move(next->next_);
        next = std::move(after);
    }
}

void Outgoing::append(Ref<Outgoing> part)
{
    length_ += part->length_;
    overhead_ = overhead() + part->overhead();
    Outgoing* end = part->last_; // of one call that is large, there are several
    last_->next_ = std::move(part);
    last_ = end;
}

void Outgoing::advance(u32 bytes)
{
    sent_ += bytes;
    skip_parts();
    while (done_ < count_ && sent_ - done_bytes_ >= length_of(done_)) {
        HW_STEP();
        done_bytes_ += length_of(done_++);
    }
}

void Outgoing::skip_parts()
{
    while (at_->next_ && sent_ - sent_before_ >= at_->own_length_) {
        HW_STEP();
        sent_before_ += at_->own_length_;
        at_ = at_->next_.get();
    }
}

u32 Outgoing::rewind()
{
    u32 back = sent_ - done_bytes_;
    sent_ = done_bytes_;
    sent_before_ = 0;
    at_ = this;
    skip_parts();
    return back;
}

Outgoing::Filled Outgoing::fill(kapi_segment* segments, unsigned count) const
{
    Filled filled{0, 0};
    u32 skip = sent_ - sent_before_;
    for (const Outgoing* part = at_; part && filled.segments < count; part = part->next_.get()) {
        HW_STEP();
        filled.segments += kapi_pages_segments(part->pages_.get(), skip, segments + filled.segments, count - filled.segments);
        skip = 0;
    }
    for (unsigned i = 0; i < filled.segments; i++)
        filled.bytes += segments[i].length;
    return filled;
}

Ref<Outgoing> UsedMessages::take()
{
    Ref<Outgoing> first = take_all();
    if (first && first->next_)
        put(std::move(first->next_));
    return first;
}

void UsedMessages::recycle(Ref<Outgoing> used)
{
    if (!used->retire())
        return;
    Ref<Outgoing> others = take_all();
    used->behind_ = others ? others->behind_ + 1 : 0;
    if (used->behind_ == most) {
        put(std::move(others));
        return;
    }
    used->next_ = std::move(others);
    put(std::move(used));
}

// Drops them when another sender has put some there meanwhile.
void UsedMessages::put(Ref<Outgoing> all)
{
    Outgoing* none = nullptr;
    if (first_.compare_exchange(none, all.get()))
        static_cast<void>(all.leak());
}

} // namespace kcm
