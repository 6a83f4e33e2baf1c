// SPDX-License-Identifier: GPL-2.0
// What streams over the loopback interface carry.
#include "streams.h"

namespace test {
namespace {

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

} // namespace test
