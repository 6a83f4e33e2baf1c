// SPDX-License-Identifier: GPL-2.0
// Memory of core's own for what came on a connection: it is in the share of who attached that, as what is kept in network
// buffers is, and in his memory cgroup.
#pragma once

#include <hawser/result.h>
#include <kapi/stream.h>

namespace kcm {

using namespace hw;

class Charge : Pinned {
public:
    ~Charge() { drop(); }
    // From here on at least size bytes are charged. In rx(). ENOMEM: as many as before.
    Result<> cover(kapi_rx* rx, usize size)
    {
        if (size <= size_)
            return {};
        TRY(check(kapi_rx_charge(rx, size - size_, &payer_)));
        size_ = size;
        return {};
    }
    // The memory is gone, and nothing is charged. Any context.
    void drop()
    {
        kapi_rx_uncharge(payer_, size_);
        payer_ = nullptr;
        size_ = 0;
    }

private:
    kapi_payer* payer_ = nullptr;
    usize size_ = 0;
};

} // namespace kcm
