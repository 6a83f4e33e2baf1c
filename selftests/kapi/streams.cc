// SPDX-License-Identifier: GPL-2.0
// Streams over the loopback interface. Both ends are Ends; the listener's side is accepted by work, as in
// real use.
#include "check.h"

#include <kapi/errno.h>
#include <kapi/memory.h>
#include <kapi/socket.h>
#include <kapi/stream.h>

#include "kapi_test.h"

namespace test {
namespace {

constexpr kapi_u16 port = 16999;
constexpr kapi_addr any{{}, 0, port, 0};
constexpr kapi_addr v4(kapi_u16 p)
{
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 0, p, 0};
}
constexpr kapi_addr v6(kapi_u16 p)
{
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0, p, 0};
}

unsigned char pattern(kapi_u64 i)
{
    return static_cast<unsigned char>(i * 13 + i / 509);
}

// A small part of a large buffer, which is not copied, pays for a quarter of it (kapi/kept.h).
bool pays_enough(kapi_rx* rx, kapi_size length)
{
    const kapi_size whole = kapi_rx_true_size(rx);
    if (length < 20000 || whole > 2 * length)
        return true;
    kapi_rxbuf* part = kapi_rx_keep(rx, 0, length / 8);
    if (!part)
        return true;
    const kapi_size paid = kapi_rxbuf_true_size(part);
    kapi_rxbuf_free(part);
    return 4 * paid + 1024 >= whole;
}

// One end of a stream. Checks that it receives the pattern, and counts it.
struct End {
    kapi_stream* stream;
    kapi_rxbuf* kept;            // a chain, when keep is set
    volatile kapi_u64 received;
    volatile kapi_u64 limit;     // declines data after this many bytes
    volatile kapi_u32 una;
    volatile int acks;
    volatile int error;          // of the CLOSED event
    volatile bool established, eof, closed, wrong;
    bool keep;

    static kapi_size on_rx(void* context, kapi_rx* rx, kapi_size length)
    {
        auto& end = *static_cast<End*>(context);
        const kapi_u64 room = end.limit - end.received;
        const kapi_size take = length < room ? length : room;
        if (end.keep && take) {
            kapi_rxbuf* buffer = kapi_rx_keep(rx, 0, take);
            if (!buffer)
                return 0;
            end.wrong = end.wrong || kapi_rxbuf_length(buffer) != take || kapi_rxbuf_true_size(buffer) < take;
            end.wrong = end.wrong || !pays_enough(rx, length);
            *kapi_rxbuf_next(buffer) = end.kept;
            end.kept = buffer;
        }
        for (kapi_size i = 0; i < take; i += 512) {
            unsigned char byte;
            kapi_rx_copy(rx, i, &byte, 1);
            end.wrong = end.wrong || byte != pattern(end.received + i);
        }
        end.received = end.received + take;
        return take;
    }
    static void on_acked(void* context, kapi_u32 una)
    {
        auto& end = *static_cast<End*>(context);
        end.una = una;
        end.acks = end.acks + 1;
    }
    static void on_event(void* context, kapi_stream_event event, int error)
    {
        auto& end = *static_cast<End*>(context);
        if (event == KAPI_STREAM_ESTABLISHED)
            end.established = true;
        if (event == KAPI_STREAM_EOF)
            end.eof = true;
        if (event == KAPI_STREAM_CLOSED) {
            end.error = error;
            end.closed = true;
        }
    }
    static constexpr kapi_stream_ops ops{on_rx, on_acked, on_event};

    void reset() { *this = End{nullptr, nullptr, 0, ~0ull, 0, 0, 0, false, false, false, false, false}; }
    void close(bool abort)
    {
        if (stream)
            kapi_stream_close(stream, abort);
        stream = nullptr;
        while (kept) {
            kapi_rxbuf* next = *kapi_rxbuf_next(kept);
            kapi_rxbuf_free(kept);
            kept = next;
        }
    }
};

// Appends the pattern from offset on; returns the accepted size.
kapi_s64 send(End& end, kapi_u64 offset, kapi_size size, kapi_u32* end_seq)
{
    static unsigned char bytes[32768];
    kapi_segment segments[8]{};
    const kapi_size total = size < sizeof(bytes) ? size : sizeof(bytes), part = total / 8;
    for (kapi_size i = 0; i < total; i++)
        bytes[i] = pattern(offset + i);
    for (unsigned i = 0; i < 8; i++) {
        segments[i].addr = bytes + i * part;
        segments[i].length = static_cast<kapi_u32>(i == 7 ? total - 7 * part : part);
    }
    return kapi_stream_send(end.stream, segments, 8, 0, end_seq);
}

// A connected pair.
class Pair {
    kapi_work accept_; // first, because the work finds its pair by this address

public:
    explicit Pair(Bench& bench) : queue_(bench.queue), net_(bench.net)
    {
        client.reset();
        server.reset();
        kapi_work_init(&accept_, accept_now);
    }
    ~Pair()
    {
        if (listener_)
            kapi_listener_stop(listener_);
        kapi_work_cancel_sync(&accept_);
        if (listener_)
            kapi_listener_close(listener_);
        client.close(true);
        server.close(true);
    }
    bool open(const kapi_addr& from, const kapi_addr& to, bool attach = true)
    {
        CHECK(listen());
        attach_ = attach;
        CHECK(kapi_stream_connect(net_, &from, &to, &options, &End::ops, &client, &client.stream) == 0);
        CHECK(eventually([&] { return client.established && server.stream; }));
        return true;
    }
    // Only listens; accepted streams are not attached.
    bool listen()
    {
        attach_ = false;
        if (kapi_listen(net_, &any, 8, ready, this, &listener_) == 0)
            return true;
        listener_ = nullptr;
        return false;
    }
    void attach() { kapi_stream_attach(server.stream, &options, &End::ops, &server); }

    static constexpr kapi_stream_options options{0, 0, 5, 1, 3, 1};
    End client, server;

private:
    static void ready(void* context)
    {
        auto* pair = static_cast<Pair*>(context);
        kapi_work_queue(pair->queue_, &pair->accept_, 0);
    }
    static void accept_now(kapi_work* work)
    {
        auto* pair = reinterpret_cast<Pair*>(work);
        kapi_stream* stream;
        while (kapi_accept(pair->listener_, &stream) == 0) {
            if (pair->server.stream) {
                kapi_stream_close(stream, 1);
                continue;
            }
            if (pair->attach_)
                kapi_stream_attach(stream, &options, &End::ops, &pair->server);
            pair->server.stream = stream;
        }
    }

    kapi_workqueue* queue_;
    kapi_net* net_;
    kapi_listener* listener_ = nullptr;
    bool attach_ = true;
};

bool echo(Bench& bench, const kapi_addr& from, const kapi_addr& to)
{
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    CHECK(pair.open(from, to));
    pair.server.keep = true;
    constexpr kapi_u64 total = 1'000'000;
    kapi_u32 end_seq = 0;
    for (kapi_u64 sent = 0; sent < total;) {
        const kapi_s64 taken = send(pair.client, sent, total - sent, &end_seq);
        CHECK(taken >= 0);
        sent += static_cast<kapi_u64>(taken);
        if (taken == 0)
            pause(millisecond);
    }
    CHECK(eventually([&] { return pair.server.received == total && pair.client.una == end_seq; }));
    CHECK(send(pair.server, 0, 100, &end_seq) == 100);
    CHECK(eventually([&] { return pair.client.received == 100; }));
    CHECK(!pair.server.wrong && !pair.client.wrong && pair.client.acks > 0);

    kapi_addr local, remote, local2, remote2;
    kapi_stream_addrs(pair.client.stream, &local, &remote);
    kapi_stream_addrs(pair.server.stream, &local2, &remote2);
    CHECK(kapi_compare(&local, &remote2, sizeof(local)) == 0 && kapi_compare(&remote, &local2, sizeof(local)) == 0);
    CHECK(remote.port == port && kapi_compare(remote.ip, to.ip, 16) == 0);
    CHECK(!from.port || local.port == from.port);

    struct kapi_stream_health health;
    kapi_stream_health(pair.client.stream, &health);
    CHECK(health.una == health.write_seq && health.unread == 0 && !health.closed && !health.eof && !health.unanswered);
    CHECK(health.silent_ns < 10'000 * millisecond);
    return true;
}

} // namespace

bool stream_echo_v4(Bench& bench)
{
    return echo(bench, v4(0), v4(port)) && echo(bench, v4(20'001), v4(port));
}

bool stream_echo_v6(Bench& bench)
{
    return echo(bench, v6(0), v6(port));
}

bool stream_pages(Bench& bench)
{
    constexpr kapi_size size = 200'000, skip = 1000;
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    CHECK(pair.open(v4(0), v4(port)));
    pair.server.keep = true;
    auto* bytes = static_cast<unsigned char*>(kapi_alloc(size, KAPI_SLEEP));
    CHECK(bytes);
    for (kapi_size i = 0; i < size; i++)
        bytes[i] = pattern(i);
    kapi_pages* pages = nullptr;
    const int made = kapi_test_with_msg(bytes, size, 0, [](kapi_msg* msg, void* result) {
        return kapi_pages_from_msg(msg, size, static_cast<kapi_pages**>(result));
    }, &pages);
    kapi_u32 end_seq = 0;
    kapi_u64 sent = 0;
    while (made == 0 && sent < size) {
        kapi_segment segments[16]{};
        unsigned first = 0;
        // A message's header is sent as bytes, the payload as pages.
        if (sent == 0) {
            segments[0].addr = bytes;
            segments[0].length = skip;
            first = 1;
        }
        const unsigned more = kapi_pages_segments(pages, sent ? sent : skip, segments + first, 16 - first);
        const kapi_s64 taken = kapi_stream_send(pair.client.stream, segments, first + more, 0, &end_seq);
        if (taken < 0)
            break;
        sent += static_cast<kapi_u64>(taken);
        if (taken == 0)
            pause(millisecond);
    }
    kapi_free(bytes);
    // The network keeps its own references.
    kapi_pages_free(pages);
    CHECK(made == 0 && sent == size);
    CHECK(eventually([&] { return pair.server.received == size && pair.client.una == end_seq; }));
    CHECK(!pair.server.wrong);
    return true;
}

bool stream_backpressure(Bench& bench)
{
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    CHECK(pair.open(v4(0), v4(port)));
    kapi_stream_set_buffers(pair.client.stream, 65536, 65536);
    pair.server.limit = 1000;
    kapi_u64 sent = 0;
    kapi_u32 end_seq = 0;
    // Until nothing is accepted for a while.
    for (int idle = 0; idle < 30;) {
        const kapi_s64 taken = send(pair.client, sent, 32768, &end_seq);
        CHECK(taken >= 0);
        sent += static_cast<kapi_u64>(taken);
        if (taken == 0) {
            pause(5 * millisecond);
            idle++;
        } else {
            idle = 0;
        }
    }
    CHECK(sent > 1000 && pair.server.received == 1000);
    struct kapi_stream_health health;
    kapi_stream_health(pair.server.stream, &health);
    CHECK(health.unread > 0);
    const int acks = pair.client.acks;
    pair.server.limit = 3000;
    CHECK(kapi_stream_resume(pair.server.stream) > 0 && pair.server.received == 3000);
    pair.server.limit = ~0ull;
    kapi_stream_resume(pair.server.stream);
    CHECK(eventually([&] { return pair.server.received == sent; }));
    CHECK(eventually([&] { return pair.client.una == end_seq; }));
    CHECK(pair.client.acks > acks && !pair.server.wrong);
    CHECK(kapi_stream_resume(pair.server.stream) == 0);
    return true;
}

bool stream_end(Bench& bench)
{
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    kapi_u32 end_seq;
    CHECK(pair.open(v4(0), v4(port)));
    pair.server.limit = 10;
    CHECK(send(pair.client, 0, 50, &end_seq) == 50);
    kapi_stream_shutdown_write(pair.client.stream);
    CHECK(eventually([&] { return pair.server.eof; }));
    CHECK(pair.server.received == 10 && !pair.server.closed && !pair.client.closed);
    CHECK(send(pair.server, 0, 20, &end_seq) == 20);
    CHECK(eventually([&] { return pair.client.received == 20; }));
    pair.server.limit = ~0ull;
    CHECK(kapi_stream_resume(pair.server.stream) == 0 && pair.server.received == 50);
    CHECK(send(pair.client, 0, 1, &end_seq) == -KAPI_EPIPE);
    pair.server.close(false);
    CHECK(eventually([&] { return pair.client.eof && pair.client.closed; }));
    CHECK(pair.client.error == 0 && !pair.server.wrong && !pair.client.wrong);
    return true;
}

bool stream_abort_keeps_acknowledged(Bench& bench)
{
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    kapi_u32 end_seq;
    CHECK(pair.open(v4(0), v4(port)));
    pair.server.limit = 0;
    CHECK(send(pair.client, 0, 5000, &end_seq) == 5000);
    CHECK(eventually([&] { return pair.client.una == end_seq; }));
    pair.client.close(true);
    CHECK(eventually([&] { return pair.server.closed; }));
    CHECK(pair.server.error == -KAPI_ECONNRESET && !pair.server.eof && pair.server.received == 0);
    pair.server.limit = ~0ull;
    CHECK(kapi_stream_resume(pair.server.stream) == 0);
    CHECK(pair.server.received == 5000 && !pair.server.wrong);
    CHECK(send(pair.server, 0, 1, &end_seq) < 0);
    return true;
}

bool stream_drain_and_reset(Bench& bench)
{
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    kapi_u32 end_seq;
    CHECK(pair.open(v4(0), v4(port)));
    pair.server.limit = 0;
    CHECK(send(pair.client, 0, 5000, &end_seq) == 5000);
    CHECK(eventually([&] { return pair.client.una == end_seq; }));
    CHECK(kapi_stream_drain_and_reset(pair.server.stream) == 5000);
    pause(20 * millisecond);
    CHECK(!pair.client.closed && pair.server.received == 0);
    pair.server.limit = ~0ull;
    CHECK(kapi_stream_drain_and_reset(pair.server.stream) == 0);
    CHECK(pair.server.received == 5000 && !pair.server.wrong);
    CHECK(eventually([&] { return pair.client.closed; }));
    CHECK(pair.client.error == -KAPI_ECONNRESET && !pair.client.eof);
    CHECK(!pair.server.closed); // no callback since
    return true;
}

bool stream_refused(Bench& bench)
{
    End end;
    end.reset();
    const kapi_addr from = v4(0), to = v4(port);
    const kapi_addr foreign{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}, 0, 0, 0};
    CHECK(kapi_stream_connect(bench.net, &from, &to, &Pair::options, &End::ops, &end, &end.stream) == 0);
    CHECK(eventually([&] { return end.closed; }));
    CHECK(end.error == -KAPI_ECONNREFUSED && !end.established);
    end.close(false);
    kapi_stream* stream = nullptr;
    const int error = kapi_stream_connect(bench.net, &foreign, &to, &Pair::options, &End::ops, &end, &stream);
    CHECK(error == -KAPI_EADDRNOTAVAIL);
    CHECK(stream == nullptr);
    return true;
}

bool stream_late_attach(Bench& bench)
{
    Boxed<Pair> box(bench);
    CHECK(box);
    Pair& pair = *box;
    kapi_u32 end_seq;
    CHECK(pair.open(v4(0), v4(port), false));
    CHECK(send(pair.client, 0, 3000, &end_seq) == 3000);
    CHECK(eventually([&] { return pair.client.una == end_seq; }));
    pair.client.close(false);
    CHECK(eventually([&] {
        struct kapi_stream_health health;
        kapi_stream_health(pair.server.stream, &health);
        return health.eof != 0;
    }));
    CHECK(pair.server.received == 0 && !pair.server.eof);
    pair.attach();
    CHECK(pair.server.received == 3000 && pair.server.eof && !pair.server.wrong);
    return true;
}

namespace {

// Connects from a worker, so that the waiting task is on another CPU.
struct Crowd {
    kapi_work work;
    kapi_net* net;
    End end;
    volatile bool began;
};

void connect_some(kapi_work* work)
{
    auto* crowd = reinterpret_cast<Crowd*>(work);
    const kapi_addr from = v4(0), to = v4(port);
    for (int i = 0; i < 3; i++) {
        crowd->end.reset();
        crowd->began = true;
        if (kapi_stream_connect(crowd->net, &from, &to, &Pair::options, &End::ops, &crowd->end, &crowd->end.stream))
            return;
        crowd->end.close(true);
    }
}

} // namespace

// The listener is closed while work accepts from it: right after the first one, and a little later each time.
bool stream_listener_end(Bench& bench)
{
    for (unsigned i = 0; i < 40; i++) {
        Boxed<Crowd> box;
        CHECK(box);
        Crowd& crowd = *box;
        crowd.net = bench.net;
        kapi_work_init(&crowd.work, connect_some);
        bool came = false;
        {
            Boxed<Pair> pair(bench);
            if (pair && (*pair).listen()) {
                kapi_work_queue(bench.queue, &crowd.work, 0);
                came = eventually([&] { return crowd.began; });
                const kapi_u64 deadline = kapi_now_ns() + 20 * millisecond;
                while (!*static_cast<kapi_stream* volatile*>(&(*pair).server.stream) && kapi_now_ns() < deadline) {
                }
                const kapi_u64 end = kapi_now_ns() + i * 2'000;
                while (kapi_now_ns() < end) {
                }
            }
        }
        kapi_work_cancel_sync(&crowd.work);
        CHECK(came);
    }
    return true;
}

} // namespace test
