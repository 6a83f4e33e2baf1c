// SPDX-License-Identifier: GPL-2.0
// Nothing that a peer gets shows where the host's memory lies.
#include <algorithm>

#include "rdma.h"

namespace sim {

namespace {

bool is_of_device(const kapi_rdma_dev &dev, kapi_u64 number)
{
    return number >= kFirstDmaAddress && number < dev.next_address;
}

} // namespace

void expect_no_address(const kapi_rdma_dev &dev, const std::vector<unsigned char> &bytes)
{
    constexpr auto kHighest = static_cast<unsigned char>(kFirstDmaAddress >> 56);
    constexpr std::ptrdiff_t kSize = sizeof(kapi_u64);
    for (auto at = bytes.begin(); (at = std::find(at, bytes.end(), kHighest)) != bytes.end(); ++at) {
        kapi_u64 little = 0, big = 0;
        for (std::ptrdiff_t i = 0; i < kSize && at - bytes.begin() >= kSize - 1; i++)
            little = little << 8 | *(at - i);
        for (std::ptrdiff_t i = 0; i < kSize && bytes.end() - at >= kSize; i++)
            big = big << 8 | *(at + i);
        if (is_of_device(dev, little) || is_of_device(dev, big))
            broken("%s sends its peer an address of the host's memory", dev.attrs.name);
    }
}

void expect_hidden_target(kapi_rdma_dev &dev, const kapi_sge &sge)
{
    const kapi_mr *mr = region_of(dev, sge.key);
    if (is_of_device(dev, sge.address) || (mr && mr->on_demand && mr->iova == mr->program))
        broken("%s gives its peer, as the target of a read, an address of the host's memory", dev.attrs.name);
}

} // namespace sim
