// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include "path.h"

namespace rtrs_clt {

// Answers and requests are writes with immediate data, which iWARP lacks; data and message are two pieces of one.
bool DeviceRules::suffices(const kapi_rdma_attrs& attrs)
{
    bool does = !(attrs.flags & KAPI_RDMA_IWARP) && attrs.max_sge >= 2 && attrs.max_wr >= 64 && attrs.max_mr_pages >= 2;
    if (!does)
        kapi_log(KAPI_LOG_NOTICE, "rtrs_client: device %s is not used, it cannot do what RTRS needs", attrs.name);
    return does;
}

void DeviceRules::goes(Path& path) { path.lost(Errno(KAPI_ENODEV)); }

} // namespace rtrs_clt
