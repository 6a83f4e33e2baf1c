// SPDX-License-Identifier: GPL-2.0
#include "descriptors.h"

#include <utility>

#include "world.h"

namespace sim {

int Descriptors::open(Descriptor descriptor)
{
    int fd = kFirst;
    while (open_.contains(fd))
        fd++;
    open_[fd] = std::move(descriptor);
    return fd;
}

const Descriptor *Descriptors::find(int fd) const
{
    auto found = open_.find(fd);
    return found == open_.end() ? nullptr : &found->second;
}

Descriptor Descriptors::take(int fd)
{
    auto found = open_.find(fd);
    if (found == open_.end())
        broken("a program closes descriptor %d, which is not open", fd);
    Descriptor descriptor = std::move(found->second);
    open_.erase(found);
    return descriptor;
}

} // namespace sim
