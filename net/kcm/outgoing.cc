// SPDX-License-Identifier: GPL-2.0
#include "outgoing.h"

#include "mux.h"
#include "socket.h"

namespace kcm {

Result<Ref<Outgoing>> Outgoing::create(kapi_msg* msg, u32 size, Ref<Psock> wanted)
{
    if (size > inline_max)
        return create_in_pages(msg, size, std::move(wanted));
    auto* made = make_with_tail<Outgoing>(Alloc::sleep, size, size, std::move(wanted));
    if (!made)
        return fail(KAPI_ENOMEM);
    auto message = Ref<Outgoing>::adopt(made);
    TRY(check(kapi_msg_copy_in(msg, message->inline_bytes(), size)));
    return message;
}

Result<Ref<Outgoing>> Outgoing::create_in_pages(kapi_msg* msg, u32 size, Ref<Psock> wanted)
{
    auto* made = make<Outgoing>(Alloc::sleep, size, std::move(wanted));
    if (!made)
        return fail(KAPI_ENOMEM);
    auto message = Ref<Outgoing>::adopt(made);
    kapi_pages* pages;
    TRY(check(kapi_pages_from_msg(msg, size, &pages)));
    message->pages_.reset(pages);
    return message;
}

Result<Ref<Outgoing>> Outgoing::create_in(Ref<Outgoing> used, kapi_msg* msg, u32 size)
{
    if (!used || size > kapi_pages_capacity(used->pages_.get()))
        return create_in_pages(msg, size, nullptr);
    TRY(check(kapi_pages_refill(used->pages_.get(), msg, size)));
    used->own_length_ = used->length_ = size;
    used->sent = 0;
    return used;
}

bool Outgoing::retire()
{
    if (!pages_ || next_ || kapi_pages_capacity(pages_.get()) > kept_max)
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
    Outgoing* added = part.get();
    last_->next_ = std::move(part);
    last_ = added;
}

unsigned Outgoing::fill_own(u32 skip, kapi_segment* segments, unsigned count) const
{
    if (pages_)
        return kapi_pages_segments(pages_.get(), skip, segments, count);
    segments[0] = {inline_bytes() + skip, nullptr, 0, own_length_ - skip};
    return 1;
}

Outgoing::Filled Outgoing::fill(kapi_segment* segments, unsigned count) const
{
    Filled filled{0, 0};
    u32 skip = sent;
    for (const Outgoing* part = this; part && filled.segments < count; part = part->next_.get()) {
        if (skip >= part->own_length_) {
            skip -= part->own_length_;
            continue;
        }
        unsigned got = part->fill_own(skip, segments + filled.segments, count - filled.segments);
        for (unsigned i = 0; i < got; i++)
            filled.bytes += segments[filled.segments + i].length;
        filled.segments += got;
        skip = 0;
    }
    return filled;
}

} // namespace kcm
