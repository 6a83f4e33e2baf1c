// SPDX-License-Identifier: GPL-2.0
// kapi's calls for programs that look at bytes.
#include <kapi/errno.h>
#include <kapi/filter.h>
#include <kapi/stream.h>

#include <utility>
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

void kapi_filter_begin(struct kapi_filter_view *view, struct kapi_rx *rx, kapi_size offset, kapi_size size) noexcept
{
    enter_bottom_halves("kapi_filter_begin");
    if (size > KAPI_FILTER_VIEW)
        broken("a filter is shown %zu bytes", static_cast<std::size_t>(size));
    auto *bytes = new std::vector<unsigned char>(size);
    kapi_rx_copy(rx, offset, bytes->data(), size);
    *view = {bytes, offset, size};
}

kapi_s32 kapi_filter_run_view(const struct kapi_filter *filter, const struct kapi_filter_view *view, kapi_size offset,
                              kapi_size size) noexcept
{
    const auto &bytes = *static_cast<const std::vector<unsigned char> *>(view->packet);
    if (offset < view->offset || offset - view->offset > view->size || size > view->size - (offset - view->offset))
        broken("a filter looks beyond its view");
    return kapi_filter_run(filter, bytes.data() + (offset - view->offset), size);
}

void kapi_filter_end(struct kapi_filter_view *view) noexcept
{
    delete static_cast<std::vector<unsigned char> *>(std::exchange(view->packet, nullptr));
}
