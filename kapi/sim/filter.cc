// SPDX-License-Identifier: GPL-2.0
// kapi's calls for programs that look at bytes.
#include <kapi/errno.h>
#include <kapi/filter.h>
#include <kapi/stream.h>

#include <algorithm>
#include <vector>

#include "program_socket.h"

using namespace sim;

int kapi_filter_get(int fd, struct kapi_filter **filter) noexcept
{
    enter_task("kapi_filter_get");
    const Descriptor *descriptor = Node::current()->descriptors.find(fd);
    if (!descriptor)
        return -KAPI_EBADF;
    if (!descriptor->filter)
        return -KAPI_EINVAL;
    *filter = hold(descriptor->filter);
    return 0;
}

void kapi_filter_put(struct kapi_filter *filter) noexcept
{
    enter_any("kapi_filter_put");
    if (filter)
        put(filter);
}

kapi_s32 kapi_filter_run(const struct kapi_filter *filter, const void *bytes, kapi_size size) noexcept
{
    enter_bottom_halves("kapi_filter_run");
    if (size > KAPI_FILTER_VIEW)
        broken("a filter is shown %zu bytes", static_cast<std::size_t>(size));
    if (!filter->references)
        broken("a filter runs without a reference");
    const auto *from = static_cast<const unsigned char *>(bytes);
    const std::vector<unsigned char> shown(from, from + size); // of this size, so that all bytes must be readable
    return filter->run(shown.data(), shown.size());
}

kapi_s32 kapi_filter_run_rx(const struct kapi_filter *filter, struct kapi_rx *rx, kapi_size offset,
                            kapi_size size) noexcept
{
    std::vector<unsigned char> shown(size);
    kapi_rx_copy(rx, offset, shown.data(), size);
    return kapi_filter_run(filter, shown.data(), size);
}

kapi_size kapi_filter_find(const struct kapi_filter *filter, struct kapi_rx *rx, kapi_size offset, kapi_size end,
                           struct kapi_filter_found *found) noexcept
{
    constexpr unsigned at_once = 16; // as if others waited for the processor then
    for (unsigned i = 0; i < at_once && found->count < found->most && offset < end; i++) {
        kapi_s32 said = kapi_filter_run_rx(filter, rx, offset, std::min<kapi_size>(end - offset, KAPI_FILTER_FIRST_VIEW));
        if (said <= 0 || static_cast<kapi_u32>(said) > found->longest || static_cast<kapi_u32>(said) > end - offset) {
            found->said = said;
            found->stopped = 1;
            break;
        }
        found->lengths[found->count++] = static_cast<kapi_u32>(said);
        offset += static_cast<kapi_u32>(said);
        if (kapi_rx_turn_is_over(rx))
            break;
    }
    return offset;
}
