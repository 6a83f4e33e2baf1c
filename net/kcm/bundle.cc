// SPDX-License-Identifier: GPL-2.0
#include "bundle.h"

namespace kcm {

Result<Ref<Bundle>> Bundle::create(kapi_rx* rx, u64 connection, std::span<const u32> lengths, u32 total)
{
    bool inlined = total <= (lengths.size() == 1 ? inline_single : inline_run);
    usize tail = lengths.size() * sizeof(Entry) + (inlined ? total : 0);
    unsigned count = static_cast<unsigned>(lengths.size());
    auto* bundle = make_with_tail<Bundle>(Alloc::atomic, tail, connection, count);
    if (!bundle)
        return fail(KAPI_ENOMEM);
    auto made = Ref<Bundle>::adopt(bundle);
    bundle->true_size_ = kapi_alloc_true_size(sizeof(Bundle) + tail);
    TRY(bundle->charge_.cover(rx, bundle->true_size_));
    u32 start = 0;
    for (unsigned i = 0; i < count; i++) {
        bundle->entries()[i] = {start, lengths[i]};
        start += lengths[i];
    }
    bundle->total_ = total;
    bundle->inlined_ = inlined;
    bundle->unread = count == max_messages ? ~0ull : (1ull << count) - 1;
    return made;
}

Bundle::~Bundle()
{
    if (counted_in_)
        counted_in_->forget_unread(true_size());
}

void Bundle::count_in(Shortage& shortage)
{
    counted_in_ = Ref<Shortage>::share(shortage);
    shortage.count_unread(true_size());
}

Result<> Bundle::append(kapi_rx* rx, usize offset, u32 size)
{
    if (!HW_ASSERT(size <= left()))
        return fail(KAPI_EINVAL);
    if (inlined_) {
        kapi_rx_copy(rx, offset, inline_bytes() + filled_, size);
    } else {
        TRY(charge_.cover(rx, true_size_ + large_.own_size() + large_.cost_of(size)));
        TRY(large_.append(rx, offset, size));
    }
    filled_ += size;
    return {};
}

Result<> Bundle::append(kapi_rx* rx, const u8* bytes, u32 size)
{
    if (!HW_ASSERT(size <= left()))
        return fail(KAPI_EINVAL);
    if (inlined_) {
        kapi_copy(inline_bytes() + filled_, bytes, size);
    } else {
        TRY(charge_.cover(rx, true_size_ + large_.own_size() + large_.cost_of_copy(size)));
        TRY(large_.append(bytes, size));
    }
    filled_ += size;
    return {};
}

const kapi_piece* Bundle::pieces(kapi_piece& first) const
{
    if (!inlined_)
        return large_.pieces();
    first = {nullptr, inline_bytes(), nullptr, filled_};
    return &first;
}

Result<> Bundle::copy_to_user(kapi_msg* msg, u32 start, u32 size) const
{
    if (size == 0)
        return {};
    if (inlined_)
        return check(kapi_msg_copy_out(msg, inline_bytes() + start, size));
    return large_.copy_to_user(msg, start, size);
}

} // namespace kcm
