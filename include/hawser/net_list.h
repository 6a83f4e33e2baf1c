// SPDX-License-Identifier: GPL-2.0
// What a module has for each network namespace, found by the namespace: in buckets, because any user can make tens of thousands,
// and peers cause look-ups. Nobody chooses the addresses of namespaces.
#pragma once

#include <hawser/base.h>
#include <hawser/steps.h>

namespace hw {

// Net has host and next. Under the owner's lock.
template <class Net> class NetList : Pinned {
public:
    void add(Net& net)
    {
        Net*& first = bucket(net.host);
        net.next = std::exchange(first, &net);
    }
    void remove(Net& net)
    {
        for (Net** at = &bucket(net.host); *at; at = &(*at)->next) {
            if (*at == &net) {
                *at = net.next;
                return;
            }
        }
    }
    // Null: there is none.
    Net* find(const kapi_net* host)
    {
        for (Net* net = bucket(host); net; net = net->next) {
            HW_STEP();
            if (net->host == host)
                return net;
        }
        return nullptr;
    }

private:
    static constexpr unsigned bits = 10;
    Net*& bucket(const kapi_net* host)
    {
        constexpr u64 golden_ratio = 0x61c8864680b583ebull;
        return buckets_[static_cast<u64>(reinterpret_cast<usize>(host)) * golden_ratio >> (64 - bits)];
    }

    Net* buckets_[1u << bits] = {};
};

} // namespace hw
