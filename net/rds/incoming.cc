// SPDX-License-Identifier: GPL-2.0
#include "incoming.h"

namespace rds {

namespace {

constexpr u32 inline_max = 4096; // payloads up to here are copied into the object

} // namespace

Result<Ref<Incoming>> Incoming::create(const Header& header)
{
    u32 length = header.length;
    bool inlined = length <= inline_max || header.flags == flag_congestion_map;
    usize tail = inlined ? length : 0;
    auto* incoming = make_with_tail<Incoming>(Alloc::atomic, tail);
    if (!incoming)
        return fail(KAPI_ENOMEM);
    incoming->header = header;
    incoming->inlined_ = inlined;
    incoming->true_size_ = kapi_alloc_true_size(sizeof(Incoming) + tail);
    return Ref<Incoming>::adopt(incoming);
}

Result<Ref<Incoming>> Incoming::from_message(Ref<Message> message)
{
    auto* incoming = make_with_tail<Incoming>(Alloc::atomic, 0);
    if (!incoming)
        return fail(KAPI_ENOMEM);
    incoming->header = message->header();
    incoming->filled_ = message->length();
    incoming->true_size_ = kapi_alloc_true_size(sizeof(Incoming)) + message->true_size();
    incoming->looped_ = std::move(message);
    return Ref<Incoming>::adopt(incoming);
}

Result<> Incoming::append(kapi_rx* rx, usize offset, u32 size)
{
    HW_ASSERT(size <= left());
    if (inlined_) {
        kapi_rx_copy(rx, offset, inline_payload() + filled_, size);
    } else {
        TRY(large_.append(rx, offset, size));
    }
    filled_ += size;
    return {};
}

const std::byte* Incoming::map_payload() const
{
    HW_ASSERT(inlined_ && filled_ == map_bytes);
    return reinterpret_cast<const std::byte*>(inline_payload());
}

Result<> Incoming::copy_to_user(kapi_msg* msg, u32 size) const
{
    HW_ASSERT(size <= header.length);
    if (size == 0)
        return {};
    if (looped_)
        return looped_->copy_payload(0, size, msg);
    if (inlined_)
        return check(kapi_msg_copy_out(msg, inline_payload(), size));
    return large_.copy_to_user(msg, 0, size);
}

} // namespace rds
