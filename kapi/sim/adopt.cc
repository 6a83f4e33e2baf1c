// SPDX-License-Identifier: GPL-2.0
// kapi's calls that take over a program's socket and give it back.
#include <kapi/errno.h>

#include <algorithm>
#include <utility>

#include "program_socket.h"
#include "stream.h"

using namespace sim;

namespace {

const ProgramSocket &adopted(const kapi_stream *stream, const char *call)
{
    if (!stream->socket)
        broken("%s is for a program's socket", call);
    return *stream->socket;
}

/** With the lock held. */
void reset(Tcb &tcb)
{
    if (tcb.state != TcpState::established)
        return;
    tcb.reset_peer();
    tcb.close(-KAPI_ECONNABORTED);
}

std::vector<unsigned char> bytes_of(const kapi_piece *first)
{
    std::vector<unsigned char> bytes;
    for (const kapi_piece *piece = first; piece; piece = piece->next) {
        std::size_t before = bytes.size();
        bytes.resize(before + piece->size);
        if (piece->bytes)
            kapi_copy(bytes.data() + before, piece->bytes, piece->size);
        else
            kapi_rxbuf_copy(piece->buffer, 0, bytes.data() + before, piece->size);
    }
    return bytes;
}

/** The kernel puts back copies in buffers of so many bytes; there may be no memory for any one of them. */
constexpr std::size_t kCopyMax = 17 * 4096;

bool copying_fails(std::size_t size)
{
    for (std::size_t done = 0; done < size; done += std::min(size - done, kCopyMax))
        if (fault("kapi_stream_give_back"))
            return true;
    return false;
}

} // namespace

int kapi_stream_adopt(int fd, struct kapi_workqueue *, struct kapi_stream **stream) noexcept
{
    enter_task("kapi_stream_adopt");
    const Descriptor *descriptor = Node::current()->descriptors.find(fd);
    if (!descriptor || !descriptor->socket)
        return -KAPI_ENOENT;
    ProgramSocketRef socket = descriptor->socket;
    if (!socket->tcb)
        return -KAPI_EOPNOTSUPP;
    if (fault("kapi_stream_adopt"))
        return -KAPI_ENOMEM;
    Tcb &tcb = *socket->tcb;
    Locked locked(tcb);
    if (tcb.state != TcpState::established || tcb.orphan)
        return -KAPI_EOPNOTSUPP;
    if (socket->adopted)
        return -KAPI_EALREADY;
    if (socket->upper)
        return -KAPI_EOPNOTSUPP;
    socket->adopted = true;
    tcb.told_eof = tcb.told_closed = tcb.declined = false;
    *stream = make_stream(socket->tcb, socket);
    return 0;
}

int kapi_stream_give_back(struct kapi_stream *stream, const struct kapi_piece *first, enum kapi_give_back how) noexcept
{
    enter_stream("kapi_stream_give_back");
    adopted(stream, "kapi_stream_give_back");
    ProgramSocketRef socket = stream->socket;
    bool unused = socket->closed;
    bool lost = how == KAPI_GIVE_BACK_LOST;
    const std::vector<unsigned char> bytes = bytes_of(first);
    int err = !unused && !lost && copying_fails(bytes.size()) ? -KAPI_ENOMEM : 0;
    lost |= err != 0;
    bool resets = lost || how != KAPI_GIVE_BACK_OPEN;
    {
        Tcb &tcb = *socket->tcb;
        Locked locked(tcb);
        tcb.attached = false;
        tcb.ops = {};
        if (lost || unused)
            tcb.forget_unread();
        else
            tcb.put_back(bytes);
        if (resets)
            reset(tcb);
        socket->adopted = false;
    }
    end_if_unused(*socket, resets);
    free_stream(stream);
    return err;
}

void kapi_stream_reset(struct kapi_stream *stream) noexcept
{
    enter_stream("kapi_stream_reset");
    adopted(stream, "kapi_stream_reset");
    Locked locked(*stream->tcb);
    reset(*stream->tcb);
}

int kapi_stream_key_of_fd(int fd, kapi_u64 *key) noexcept
{
    enter_task("kapi_stream_key_of_fd");
    const Descriptor *descriptor = Node::current()->descriptors.find(fd);
    if (!descriptor || !descriptor->socket)
        return -KAPI_ENOENT;
    *key = descriptor->socket->key;
    return 0;
}

kapi_u64 kapi_stream_key(const struct kapi_stream *stream) noexcept
{
    return adopted(stream, "kapi_stream_key").key;
}

int kapi_stream_is_unused(const struct kapi_stream *stream) noexcept
{
    enter_any("kapi_stream_is_unused");
    return adopted(stream, "kapi_stream_is_unused").closed;
}

void kapi_stream_post_error(struct kapi_stream *stream, int error) noexcept
{
    enter_any("kapi_stream_post_error");
    adopted(stream, "kapi_stream_post_error");
    if (error <= 0)
        broken("the error %d is posted", error);
    world().note("error posted", stream->tcb->local.port, static_cast<std::uint64_t>(error));
    stream->socket->error = error;
}

kapi_u32 kapi_stream_rcvbuf(const struct kapi_stream *stream) noexcept
{
    enter_any("kapi_stream_rcvbuf");
    kapi_u32 set = stream->tcb->options.rcvbuf;
    return set ? set : Tcb::kDefaultBuffer;
}

kapi_u64 kapi_stream_rcvtimeo_ns(const struct kapi_stream *stream) noexcept
{
    enter_any("kapi_stream_rcvtimeo_ns");
    return adopted(stream, "kapi_stream_rcvtimeo_ns").rcvtimeo_ns;
}

void kapi_stream_queues(const struct kapi_stream *stream, struct kapi_stream_queues *queues) noexcept
{
    enter_any("kapi_stream_queues");
    const Tcb &tcb = *stream->tcb;
    queues->recv_q = static_cast<kapi_u32>(tcb.in.size());
    queues->rmem = static_cast<kapi_u32>(tcb.unread);
    queues->send_q = static_cast<kapi_u32>(tcb.out.size());
    queues->smem = 1 + queues->send_q;
}
