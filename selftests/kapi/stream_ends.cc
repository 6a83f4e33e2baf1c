// SPDX-License-Identifier: GPL-2.0
// How streams over the loopback interface end, and how they begin late or not at all.
#include "streams.h"

namespace test {

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
