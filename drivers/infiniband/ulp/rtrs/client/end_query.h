// SPDX-License-Identifier: GPL-2.0
// Has the server ended a path that is lost here? What was sent over that may still be on its way, or wait in the server's queues,
// when its repetition over another path has been answered, and then change what was written since. RTRS has no message for this.
// So the server is asked for a connection of the lost path, from the addresses of one that it has: it cannot give that, but says
// so only when it has ended the lost path (EEXIST), which hawser's server does for this. The kernel's own does not end a path for
// this: until it has noticed the loss, and until its disk has done what came over the path, it turns us down with ECONNRESET.
#pragma once

#include "device.h"

#include "../common/connect.h"

#include <hawser/atomic.h>
#include <hawser/wait.h>

namespace rtrs_clt {

class EndQuery : Pinned {
public:
    // The worker of the lost path, sleeps. EEXIST: nothing arrives at the server over it any more; ETIMEDOUT: no answer
    // came, or this host could not ask, or the server has no room for the question; else the server has not ended it.
    static Errno ask(Path& lost, const kapi_cm_route& route, const rtrs::wire::ConnectRequest& request, u64 deadline_ns);

private:
    explicit EndQuery(Path& lost) : lost_(lost) {}
    ~EndQuery();
    Errno ask(const kapi_cm_route& route, const rtrs::wire::ConnectRequest& request, u64 deadline_ns);
    Result<> resolve(const kapi_cm_route& route, u64 deadline_ns);
    Result<> make_queue();
    Result<> send(const rtrs::wire::ConnectRequest& request);
    int answer() const { return answer_.load_acquire(); } // 0: there is none yet
    static void on_resolved(void* context, kapi_rdma_dev* dev);
    static void on_established(void* context, const void* data, kapi_size size);
    static void on_ended(void* context, const kapi_cm_end* end);
    void heard(Errno answer);
    static const kapi_cm_ops cm_ops;

    Path& lost_;
    Atomic<kapi_rdma_dev*> resolved_{nullptr};
    Atomic<int> answer_{0};
    WaitQueue heard_;
    DeviceUser user_;
    ProtectionDomain pd_;
    CompletionQueue cq_;
    CmEnd cm_;
    QueuePair qp_;
};

} // namespace rtrs_clt
