// SPDX-License-Identifier: GPL-2.0
#include "outgoing.h"

#include "mux.h"
#include "socket.h"

namespace kcm {

Outgoing::Outgoing(Pages pages, Ref<Psock> to)
    : wanted(std::move(to)), pages_(std::move(pages)), own_length_(static_cast<u32>(kapi_pages_length(pages_.get()))),
      length_(own_length_)
{
}

Result<Ref<Outgoing>> Outgoing::create(Pages pages, Ref<Psock> wanted)
{
    auto* message = make<Outgoing>(Alloc::sleep, std::move(pages), std::move(wanted));
    if (!message)
        return fail(KAPI_ENOMEM);
    return Ref<Outgoing>::adopt(message);
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

Outgoing::Filled Outgoing::fill(kapi_segment* segments, unsigned count) const
{
    Filled filled{0, 0};
    u32 skip = sent;
    for (const Outgoing* part = this; part && filled.segments < count; part = part->next_.get()) {
        if (skip >= part->own_length_) {
            skip -= part->own_length_;
            continue;
        }
        unsigned got = kapi_pages_segments(part->pages_.get(), skip, segments + filled.segments, count - filled.segments);
        for (unsigned i = 0; i < got; i++)
            filled.bytes += segments[filled.segments + i].length;
        filled.segments += got;
        skip = 0;
    }
    return filled;
}

} // namespace kcm
