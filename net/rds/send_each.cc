// SPDX-License-Identifier: GPL-2.0
// Many messages in one sendmsg(): RDS_CMSG_LENGTHS.
#include "cmsg.h"
#include "connection.h"
#include "socket.h"

#include <kapi/host.h>

namespace rds {

Result<u32> Socket::send_next(const rds_send& send, const SendControls& controls, Target& to, const Wait& wait)
{
    Ref<Message> message = TRY(build(send, controls, to));
    TRY(route(to)); // the copy, and the wait before it, may have taken long
    return queue(message, to, wait);
}

// They are transmitted together: at the end, before this sender waits, when the send buffer is full, or some time later. An error
// behind the first is left to the next call, which meets it again.
Result<u32> Socket::send_each(const rds_send& send, const SendControls& controls, Target& to)
{
    TRY(check_lengths(controls, send.size));
    if (send.flags & RDS_ABI_MSG_ZEROCOPY)
        return fail(KAPI_EINVAL);
    to.gathers = true;
    Wait wait = wait_of(send);
    rds_send one = send;
    u32 sent = 0;
    for (usize i = 0; i < controls.count(); i++) {
        one.size = controls.length(i);
        auto taken = send_next(one, controls, to, wait);
        if (!taken && !i)
            return fail(taken.error());
        if (!taken)
            break;
        sent += *taken;
        kapi_resched();
    }
    return sent;
}

} // namespace rds
