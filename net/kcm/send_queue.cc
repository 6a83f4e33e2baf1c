// SPDX-License-Identifier: GPL-2.0
#include "send_queue.h"

#include "mux.h"
#include "socket.h"

namespace kcm {

SendQueue::SendQueue(Socket& of) : socket(of)
{
}

SendQueue::SendQueue(Socket& of, Ref<Psock> address) : socket(of), to(std::move(address))
{
}

SendQueue::~SendQueue()
{
    HW_ASSERT(messages.empty() && !psock);
}

u64 SendQueue::id_in_table() const
{
    return to->id;
}

Result<Ref<SendQueue>> SendQueue::create(Socket& socket, Ref<Psock> to)
{
    auto* made = make<SendQueue>(Alloc::charged, socket, std::move(to));
    if (!made)
        return fail(KAPI_ENOMEM);
    socket.ref();
    return Ref<SendQueue>::adopt(made);
}

void SendQueue::ref() const
{
    socket.ref();
    count_.fetch_add(1);
}

// The socket's own queue has one reference that is never given up, so it is not freed here.
void SendQueue::unref() const
{
    Socket& of = socket;
    if (count_.fetch_sub(1) == 1)
        dispose(const_cast<SendQueue*>(this));
    of.unref();
}

void SendQueue::wake()
{
    socket.wake(*this);
}

} // namespace kcm
