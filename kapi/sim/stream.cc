// SPDX-License-Identifier: GPL-2.0
// kapi's streams over the simulated TCP.
#include <kapi/errno.h>
#include <kapi/socket.h>
#include <kapi/stream.h>

#include <algorithm>
#include <cstring>

#include "program_socket.h"
#include "rxbuf.h"
#include "stream.h"

namespace sim {

namespace {

void destroy_stream(void *stream)
{
    delete static_cast<kapi_stream *>(stream);
}

/** A port that no connection of the local address has with this peer; 0 when there is none. */
kapi_u16 automatic_port(const kapi_net &net, kapi_addr local, const kapi_addr &remote)
{
    Network &network = world().network();
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        local.port = static_cast<kapi_u16>(world().host_random().between(net.port_low, net.port_high));
        if (!network.find(&net, local, remote) && !network.port_taken(&net, local))
            return local.port;
    }
    return 0;
}

void merge_keepalive(kapi_stream_options &options, const kapi_stream_options &asked)
{
    if (!asked.keepalive_idle_s)
        return;
    options.keepalive_idle_s = asked.keepalive_idle_s;
    options.keepalive_interval_s = asked.keepalive_interval_s;
    options.keepalive_count = asked.keepalive_count;
}

/** A program has set up its socket already; options that core does not set stay. */
void merge(kapi_stream_options &options, const kapi_stream_options &asked)
{
    options.sndbuf = asked.sndbuf ? asked.sndbuf : options.sndbuf;
    options.rcvbuf = asked.rcvbuf ? asked.rcvbuf : options.rcvbuf;
    merge_keepalive(options, asked);
}

} // namespace

void enter_stream(const char *call)
{
    if (World::current_task()->callback_of)
        broken("%s is called from a stream callback", call);
    enter_sleep(call);
}

kapi_stream *make_stream(const TcbRef &tcb, const ProgramSocketRef &socket)
{
    auto *stream = new kapi_stream{tcb, socket};
    tcb->node->live_streams++;
    tcb->node->adopt(stream, destroy_stream);
    return stream;
}

void free_stream(kapi_stream *stream)
{
    Node &node = *stream->tcb->node;
    node.live_streams--;
    node.disown(stream);
    delete stream;
}

void let_go(Tcb &tcb, bool abort)
{
    tcb.attached = false;
    tcb.ops = {};
    tcb.orphan = true;
    if (tcb.state == TcpState::syn_sent || tcb.state == TcpState::syn_received || abort || tcb.unread) {
        if (tcb.state == TcpState::established || tcb.state == TcpState::syn_received)
            tcb.reset_peer();
        tcb.close(0);
        return;
    }
    tcb.queue_fin();
    tcb.set_timer();
}

} // namespace sim

using namespace sim;

static bool is_link_local(const kapi_addr &addr)
{
    return addr.ip[0] == 0xfe && (addr.ip[1] & 0xc0) == 0x80;
}

int kapi_stream_connect(struct kapi_net *net, const struct kapi_addr *local, const struct kapi_addr *remote,
                        const struct kapi_stream_options *options, const struct kapi_stream_ops *ops, void *context,
                        struct kapi_stream **stream) noexcept
{
    enter_stream("kapi_stream_connect");
    Network &network = world().network();
    if (fault("kapi_stream_connect"))
        return -KAPI_ENOMEM;
    if (!net->holds(*local))
        return -KAPI_EADDRNOTAVAIL;
    kapi_addr own = *local;
    if (!own.port)
        own.port = automatic_port(*net, own, *remote);
    else if (!options->shares_port && network.port_taken(net, own))
        return -KAPI_EADDRINUSE;
    if (!own.port)
        return -KAPI_EADDRNOTAVAIL;
    kapi_addr to = *remote;
    own.scope = to.scope = 0; // the peer has numbers of its own for its links
    if (network.find(net, own, to))
        return -KAPI_EADDRNOTAVAIL;
    auto tcb = std::make_shared<Tcb>(world(), *net, own, to);
    tcb->options = *options;
    tcb->ops = *ops;
    tcb->context = context;
    tcb->attached = true;
    network.add(tcb);
    tcb->connect();
    kapi_stream *made = make_stream(tcb);
    enter_any("kapi_stream_connect"); // the peer may answer before the caller has its stream
    *stream = made;
    return 0;
}

kapi_size kapi_stream_peek(struct kapi_stream *stream, void *to, kapi_size size) noexcept
{
    enter_stream("kapi_stream_peek");
    const Tcb &tcb = *stream->tcb;
    Locked locked(*stream->tcb);
    if (tcb.attached)
        broken("an attached stream is looked into");
    kapi_size copied = 0, from = tcb.in_taken;
    for (const auto &packet : tcb.in) {
        kapi_size part = std::min(size - copied, packet.size() - from);
        std::memcpy(static_cast<unsigned char *>(to) + copied, packet.data() + from, part);
        copied += part;
        from = 0;
    }
    return copied;
}

void kapi_stream_keep_alive(struct kapi_stream *stream, const struct kapi_stream_options *options) noexcept
{
    enter_stream("kapi_stream_keep_alive");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    if (tcb.attached)
        broken("an attached stream is set up again");
    merge_keepalive(tcb.options, *options);
    tcb.set_timer();
}

void kapi_stream_attach(struct kapi_stream *stream, const struct kapi_stream_options *options,
                        const struct kapi_stream_ops *ops, void *context) noexcept
{
    enter_stream("kapi_stream_attach");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    if (tcb.attached)
        broken("a stream is attached twice");
    if (stream->socket)
        merge(tcb.options, *options);
    else
        tcb.options = *options;
    tcb.ops = *ops;
    tcb.context = context;
    tcb.attached = true;
    tcb.told_established = true; // these are, without an event
    tcb.deliver();
    tcb.announce_window();
    tcb.tell_pending();
    tcb.set_timer();
}

void kapi_stream_addrs(struct kapi_stream *stream, struct kapi_addr *local, struct kapi_addr *remote) noexcept
{
    enter_any("kapi_stream_addrs");
    const Tcb &tcb = *stream->tcb;
    *local = tcb.local;
    *remote = tcb.remote;
    local->scope = is_link_local(*local) ? tcb.net->ifindex_of(*local) : 0;
    remote->scope = is_link_local(*remote) ? tcb.net->ifindex_of(*local) : 0;
}

void kapi_stream_set_buffers(struct kapi_stream *stream, kapi_u32 sndbuf, kapi_u32 rcvbuf) noexcept
{
    enter_stream("kapi_stream_set_buffers");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    if (sndbuf)
        tcb.options.sndbuf = sndbuf;
    if (rcvbuf)
        tcb.options.rcvbuf = rcvbuf;
    tcb.announce_window();
}

void kapi_stream_buffer_limits(kapi_u32 *sndbuf, kapi_u32 *rcvbuf) noexcept
{
    const Node *node = Node::current();
    *sndbuf = node->wmem_max;
    *rcvbuf = node->rmem_max;
}

kapi_s64 kapi_stream_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int count,
                          unsigned int flags, kapi_u32 *end_seq) noexcept
{
    enter_stream("kapi_stream_send");
    if (auto &announced = Node::current()->announced)
        announced->push_back((flags & KAPI_STREAM_MORE) != 0);
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    *end_seq = tcb.write_seq;
    if (stream->socket && stream->socket->error)
        return -stream->socket->error; // it stays for the program
    if (int err = cannot_send(tcb, nullptr))
        return err;
    kapi_size wanted = 0;
    for (unsigned int i = 0; i < count; i++)
        wanted += segments[i].length;
    kapi_size taken = tcb.state == TcpState::established ? tcb.append(segments, count) : 0;
    if (taken < wanted)
        tcb.wants_room = true;
    *end_seq = tcb.write_seq;
    world().note("send from, to port", tcb.local.port, tcb.remote.port);
    world().note("send", wanted, taken);
    enter_any("kapi_stream_send");
    // TCP that has no room for all of it pushes what it has.
    tcb.holds_back = taken == wanted && (flags & KAPI_STREAM_MORE || (flags & KAPI_STREAM_GATHER && tcb.una != tcb.next));
    tcb.push();
    if (tcb.holds_back)
        tcb.watch_promise();
    return static_cast<kapi_s64>(taken);
}

kapi_size kapi_stream_resume(struct kapi_stream *stream) noexcept
{
    enter_stream("kapi_stream_resume");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    tcb.declined = false;
    tcb.deliver();
    tcb.announce_window();
    return tcb.unread;
}

kapi_size kapi_stream_drain_and_reset(struct kapi_stream *stream) noexcept
{
    enter_stream("kapi_stream_drain_and_reset");
    if (stream->socket)
        broken("a program's socket is reset as if it were core's own");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    std::size_t before;
    do {
        before = tcb.unread;
        tcb.declined = false;
        tcb.deliver();
    } while (tcb.unread && tcb.unread < before);
    if (!tcb.unread) {
        let_go(tcb, true);
        tcb.orphan = false; // until it is closed
    }
    return tcb.unread;
}

void kapi_stream_shutdown_write(struct kapi_stream *stream) noexcept
{
    enter_stream("kapi_stream_shutdown_write");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    if (tcb.state == TcpState::syn_sent)
        tcb.close(0);
    tcb.queue_fin();
}

void kapi_stream_close(struct kapi_stream *stream, int abort) noexcept
{
    if (!stream)
        return;
    enter_stream("kapi_stream_close");
    if (stream->socket)
        broken("a program's socket is closed instead of given back");
    {
        Tcb &tcb = *stream->tcb;
        Locked locked(tcb);
        let_go(tcb, abort);
    }
    free_stream(stream);
}

/** As the kernel has it: the difference of time stamps in ticks, which processors notice one after the other. */
static kapi_u64 silent_ns(const Tcb &tcb)
{
    constexpr kapi_u64 kTickNs = 4 * kMillisecond;
    kapi_u64 now = tcb.node->now_ns() / kTickNs - world().host_random().below(2), heard = tcb.last_heard_ns / kTickNs;
    return now > heard ? (now - heard) * kTickNs : 0;
}

void kapi_stream_health(struct kapi_stream *stream, struct kapi_stream_health *health) noexcept
{
    const Tcb &tcb = *stream->tcb;
    if (World::current_task()->callback_of == &tcb)
        broken("kapi_stream_health is called from the stream's own callback");
    enter_any("kapi_stream_health");
    health->una = tcb.una;
    health->next = tcb.next;
    health->write_seq = tcb.write_seq;
    health->unread = static_cast<kapi_u32>(tcb.unread);
    health->silent_ns = silent_ns(tcb);
    health->rtt_us = static_cast<kapi_u32>(tcb.shortest_trip_ns / kMicrosecond);
    health->unanswered = tcb.retries || tcb.probes;
    health->eof = tcb.fin_received;
    health->closed = tcb.state == TcpState::closed || tcb.state == TcpState::time_wait;
    health->to_offer = health->unread != 0;
}

void kapi_stream_limit_back_off(struct kapi_stream *stream, kapi_u32 limit_ms) noexcept
{
    enter_stream("kapi_stream_limit_back_off");
    Tcb &tcb = *stream->tcb;
    Locked locked(tcb);
    tcb.limit_back_off(limit_ms * kMillisecond);
}

// ---- received bytes

static void check_offer(const kapi_rx *rx, kapi_size offset, kapi_size size)
{
    if (World::current_task()->callback_of != rx->tcb)
        broken("an offer is used outside of rx()");
    if (offset > rx->length || size > rx->length - offset)
        broken("an offer is read beyond its end");
}

void kapi_rx_copy(struct kapi_rx *rx, kapi_size offset, void *to, kapi_size size) noexcept
{
    check_offer(rx, offset, size);
    if (size)
        std::memcpy(to, rx->bytes + offset, size);
}

struct kapi_rxbuf *kapi_rx_keep(struct kapi_rx *rx, kapi_size offset, kapi_size size) noexcept
{
    check_offer(rx, offset, size);
    if (!size)
        broken("nothing of an offer is kept");
    bool paid = rx->tcb->of_program;
    if (fault("kapi_rx_keep") || (paid && !charge_kept(*rx->tcb->payer, rxbuf_true_size(size))))
        return nullptr;
    auto *buffer = static_cast<kapi_rxbuf *>(current_memory().allocate(sizeof(kapi_rxbuf) + size, true, paid));
    buffer->payer = paid ? rx->tcb->payer.get() : nullptr;
    buffer->length = buffer->capacity = size;
    std::memcpy(buffer->bytes, rx->bytes + offset, size);
    return buffer;
}

kapi_size kapi_rx_true_size(const struct kapi_rx *rx) noexcept
{
    return rxbuf_true_size(rx->length);
}
