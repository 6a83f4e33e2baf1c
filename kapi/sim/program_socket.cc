// SPDX-License-Identifier: GPL-2.0
#include "program_socket.h"
#include "rxbuf.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "stream.h"

namespace sim {

namespace {

constexpr std::uint64_t kLongestNap = 10 * kMillisecond;

Descriptors &descriptors()
{
    return Node::current()->descriptors;
}

ProgramSocketRef make_socket(const TcbRef &tcb)
{
    auto socket = std::make_shared<ProgramSocket>();
    socket->key = Node::current()->next_socket_key++;
    socket->tcb = tcb;
    return socket;
}

ProgramSocketRef tcp_socket(int fd)
{
    const Descriptor *descriptor = descriptors().find(fd);
    if (!descriptor || !descriptor->socket || !descriptor->socket->tcb)
        broken("a program uses descriptor %d, which is no TCP socket", fd);
    return descriptor->socket;
}

/** A program that waits looks again and again, less and less often. */
class Nap {
public:
    void take()
    {
        world().sleep(length_ns_);
        length_ns_ = std::min(2 * length_ns_, kLongestNap);
    }

private:
    std::uint64_t length_ns_ = 100 * kMicrosecond;
};

/** Takes the first one. With the lock held. */
std::size_t take_unread(Tcb &tcb, unsigned char *to, std::size_t size)
{
    std::size_t done = 0;
    while (done < size && tcb.unread) {
        const std::vector<unsigned char> &first = tcb.in.front();
        std::size_t part = std::min(size - done, first.size() - tcb.in_taken);
        std::memcpy(to + done, first.data() + tcb.in_taken, part);
        tcb.consume(part);
        done += part;
    }
    if (done)
        tcb.announce_window();
    return done;
}

bool is_over(const Tcb &tcb)
{
    return tcb.state == TcpState::closed || tcb.state == TcpState::time_wait;
}

/** -EAGAIN when there is nothing yet. With the lock held. */
long try_to_read(ProgramSocket &socket, unsigned char *to, std::size_t size)
{
    Tcb &tcb = *socket.tcb;
    if (std::size_t done = take_unread(tcb, to, size))
        return static_cast<long>(done);
    if (socket.error)
        return -std::exchange(socket.error, 0);
    if (is_over(tcb))
        return tcb.error;
    return tcb.fin_received ? 0 : -KAPI_EAGAIN;
}

long try_to_write(ProgramSocket &socket, const unsigned char *from, std::size_t size)
{
    Tcb &tcb = *socket.tcb;
    if (int err = cannot_send(tcb, &socket))
        return err;
    kapi_segment segment{from, nullptr, 0, static_cast<kapi_u32>(size)};
    kapi_size taken = tcb.append(&segment, 1);
    tcb.holds_back = false;
    tcb.push();
    return taken ? static_cast<long>(taken) : -KAPI_EAGAIN;
}

} // namespace

int program_socket(kapi_stream *stream, kapi_u32 rcvbuf)
{
    enter_stream("program_socket");
    TcbRef tcb = stream->tcb;
    {
        Locked locked(*tcb);
        tcb->attached = false;
        tcb->ops = {};
        tcb->of_program = true;
        tcb->payer = std::make_shared<Payer>(*tcb->node);
        tcb->options.rcvbuf = rcvbuf;
        tcb->announce_window();
    }
    free_stream(stream);
    return descriptors().open({make_socket(tcb)});
}

int program_connect(kapi_net &net, const kapi_addr &local, const kapi_addr &remote)
{
    static const kapi_stream_ops kUnread{[](void *, kapi_rx *, kapi_size) -> kapi_size { return 0; },
                                         [](void *, kapi_u32) {}, [](void *, kapi_stream_event, int) {}};
    kapi_stream_options options{};
    kapi_stream *stream;
    if (int err = kapi_stream_connect(&net, &local, &remote, &options, &kUnread, nullptr, &stream))
        return err;
    for (Nap nap; stream->tcb->state == TcpState::syn_sent;)
        nap.take();
    if (stream->tcb->state == TcpState::established)
        return program_socket(stream);
    int err = stream->tcb->error;
    kapi_stream_close(stream, 1);
    return err ? err : -KAPI_ECONNRESET;
}

kapi_listener *program_listen(kapi_net &net, const kapi_addr &addr)
{
    kapi_listener *listener;
    return kapi_listen(&net, &addr, 128, [](void *) {}, nullptr, &listener) ? nullptr : listener;
}

int program_accept(kapi_listener *listener, kapi_u32 rcvbuf)
{
    kapi_stream *stream;
    for (Nap nap; kapi_accept(listener, &stream);)
        nap.take();
    return program_socket(stream, rcvbuf);
}

void program_unlisten(kapi_listener *listener)
{
    kapi_listener_stop(listener);
    kapi_listener_close(listener);
}

int program_other_socket()
{
    return descriptors().open({make_socket(nullptr)});
}

int program_pipe()
{
    return descriptors().open({});
}

int program_filter(std::function<kapi_s32(const unsigned char *bytes, std::size_t size)> run)
{
    Node *node = Node::current();
    auto *filter = new kapi_filter{node, std::move(run)};
    node->live_filters++;
    node->adopt(filter, [](void *object) { delete static_cast<kapi_filter *>(object); });
    return descriptors().open({nullptr, filter});
}

int program_length_filter()
{
    return program_filter([](const unsigned char *bytes, std::size_t size) -> kapi_s32 {
        if (size < 4)
            return 0; // as a BPF program that reads behind the end
        kapi_u32 payload = kapi_u32{bytes[0]} << 24 | kapi_u32{bytes[1]} << 16 | kapi_u32{bytes[2]} << 8 | bytes[3];
        return static_cast<kapi_s32>(payload + 4);
    });
}

ProgramSocket &program_socket_of(int fd)
{
    return *tcp_socket(fd);
}

void program_set_buffers(int fd, kapi_u32 sndbuf, kapi_u32 rcvbuf)
{
    ProgramSocketRef socket = tcp_socket(fd);
    Locked locked(*socket->tcb);
    kapi_stream_options &options = socket->tcb->options;
    options.sndbuf = sndbuf ? sndbuf : options.sndbuf;
    options.rcvbuf = rcvbuf ? rcvbuf : options.rcvbuf;
    socket->tcb->announce_window();
}

long program_read(int fd, void *bytes, std::size_t size, Wait wait)
{
    enter_stream("a program's read");
    ProgramSocketRef socket = tcp_socket(fd);
    for (Nap nap;; nap.take()) {
        Locked locked(*socket->tcb);
        long result = try_to_read(*socket, static_cast<unsigned char *>(bytes), size);
        if (result != -KAPI_EAGAIN || wait == Wait::no)
            return result;
    }
}

long program_write(int fd, const void *bytes, std::size_t size, Wait wait)
{
    enter_stream("a program's write");
    ProgramSocketRef socket = tcp_socket(fd);
    const auto *from = static_cast<const unsigned char *>(bytes);
    std::size_t done = 0;
    for (Nap nap;; nap.take()) {
        Locked locked(*socket->tcb);
        long result = try_to_write(*socket, from + done, size - done);
        if (result > 0)
            done += static_cast<std::size_t>(result);
        bool may_go_on = result > 0 || result == -KAPI_EAGAIN;
        if (done == size || wait == Wait::no || !may_go_on)
            return done ? static_cast<long>(done) : result;
    }
}

int program_error(int fd)
{
    ProgramSocketRef socket = tcp_socket(fd);
    if (socket->error)
        return -std::exchange(socket->error, 0);
    return is_over(*socket->tcb) ? socket->tcb->error : 0;
}

unsigned program_poll(int fd)
{
    ProgramSocketRef socket = tcp_socket(fd);
    const Tcb &tcb = *socket->tcb;
    unsigned events = 0;
    if (tcb.unread || tcb.fin_received || is_over(tcb))
        events |= KAPI_IN | KAPI_RDNORM;
    if (tcb.room() || tcb.fin_queued || is_over(tcb))
        events |= KAPI_OUT | KAPI_WRNORM;
    if (socket->error || (is_over(tcb) && tcb.error))
        events |= KAPI_ERR;
    if (is_over(tcb))
        events |= KAPI_HUP;
    return events;
}

void program_shutdown_write(int fd)
{
    enter_stream("a program's shutdown");
    ProgramSocketRef socket = tcp_socket(fd);
    Locked locked(*socket->tcb);
    socket->tcb->queue_fin();
}

void program_close(int fd)
{
    enter_stream("a program's close");
    Descriptor descriptor = descriptors().take(fd);
    if (descriptor.filter)
        put(descriptor.filter);
    if (!descriptor.socket)
        return;
    descriptor.socket->closed = true;
    end_if_unused(*descriptor.socket, false);
}

kapi_filter *hold(kapi_filter *filter)
{
    filter->references++;
    return filter;
}

void put(kapi_filter *filter)
{
    if (!filter->references)
        broken("a filter is put without a reference");
    if (--filter->references)
        return;
    filter->node->live_filters--;
    filter->node->disown(filter);
    delete filter;
}

void end_if_unused(ProgramSocket &socket, bool abort)
{
    if (!socket.closed || socket.adopted || !socket.tcb)
        return;
    Locked locked(*socket.tcb);
    if (!socket.tcb->orphan)
        let_go(*socket.tcb, abort);
}

int cannot_send(const Tcb &tcb, ProgramSocket *socket)
{
    if (socket && socket->error)
        return -std::exchange(socket->error, 0); // reported once, to the first caller
    if (is_over(tcb))
        return tcb.error ? tcb.error : -KAPI_EPIPE;
    return tcb.fin_queued ? -KAPI_EPIPE : 0;
}

} // namespace sim
