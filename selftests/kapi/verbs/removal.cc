// SPDX-License-Identifier: GPL-2.0
// A device goes while it is used. The scene removes it.
#include "link.h"

#include "verbs_test.h"

namespace test {

namespace {

struct Removal {
    volatile bool going, closed;
    kapi_rdma_dev* dev;
    int made[2]; // how it ended to make something of the device meanwhile
};

// The removal waits for the test's task to give everything back.
void wait_until_closed(void* context)
{
    auto* removal = static_cast<Removal*>(context);
    kapi_pd* pd = nullptr;
    kapi_cq* cq = nullptr;
    removal->made[0] = kapi_pd_create(removal->dev, &pd);
    removal->made[1] = kapi_cq_create(removal->dev, 8, 0, KAPI_CQ_DIRECT, nullptr, nullptr, &cq);
    kapi_cq_free(cq);
    kapi_pd_free(pd);
    removal->going = true;
    while (!removal->closed)
        pause(millisecond);
}

template <class Condition> bool within_a_minute(Condition&& condition)
{
    const kapi_u64 deadline = kapi_now_ns() + 60'000 * millisecond;
    while (!condition()) {
        if (kapi_now_ns() > deadline)
            return false;
        pause(millisecond);
    }
    return true;
}

// Messages back and forth until the device goes: how many.
unsigned exchange(Link& link, const Removal& removal)
{
    unsigned sent = 0;
    while (!removal.going && !link.a.ended && !link.b.ended) {
        kapi_wr wr{};
        wr.op = KAPI_WR_SEND;
        wr.flags = KAPI_WR_SIGNALED;
        if (link.b.receive(sent, 32768, 8192) != 0 || link.a.send(wr, 0, 8192) != 0)
            break;
        if (!link.a.next() || !link.b.next())
            break;
        sent++;
    }
    return sent;
}

} // namespace

bool removed_under_load(VerbsBench& bench)
{
    Boxed<Removal> removal;
    Boxed<Side> half; // never got beyond an address
    OpenLink link;
    CHECK(removal && half && link && link->open(bench));
    kapi_cm_route route{};
    route.local = v4(2);
    route.remote = v4(1, test_port);
    route.timeout_ms = 3000;
    CHECK(kapi_cm_connect(bench.net, &route, &side_ops, &*half, &half->cm) == 0);
    CHECK(eventually([&] { return half->resolved; }));
    kapi_pd* left = nullptr;
    removal->dev = link->b.dev;
    CHECK(kapi_pd_create(removal->dev, &left) == 0);
    bench.devices->context = &*removal;
    bench.devices->on_removed = wait_until_closed;
    kapi_log(KAPI_LOG_INFO, "kapi_test: remove rx2");
    const unsigned sent = exchange(*link, *removal);
    const bool going = within_a_minute([&] { return removal->going; });
    // What is posted now is flushed, and all of it ends.
    for (unsigned i = 0; i < 8; i++)
        link->b.receive(i, 32768, 100);
    link->b.close();
    kapi_fill(static_cast<void*>(&link->b), 0, sizeof(link->b)); // a temporary would be too much for the stack
    removal->closed = true;
    const bool removed = within_a_minute([&] { return bench.devices->removed == 1; });
    // The device does not go on before this one is given back, too.
    pause(500 * millisecond);
    const bool waits = !half->ended;
    kapi_pd_free(left);
    // It was not known to removed(), and the device waits for it.
    const bool ended = within_a_minute([&] { return half->ended; });
    const bool why = half->end.why == KAPI_CM_DEVICE_REMOVED && half->end.error == -KAPI_ENODEV;
    pause(200 * millisecond);
    kapi_cm_destroy(half->cm);
    bench.devices->on_removed = nullptr;
    CHECK(sent > 0 && going && removed && waits && ended && why);
    CHECK(removal->made[0] == -KAPI_ENODEV && removal->made[1] == -KAPI_ENODEV);
    return true;
}

// Between the state of an ID that looks for an address and the request for it: nothing has been made yet that the removal could
// cancel. The request must not be worked on once the ID is gone; Linux leaves it to itself then.
bool removed_while_resolving(VerbsBench& bench)
{
    Boxed<Side> side;
    CHECK(side);
    kapi_cm_route route{};
    route.local = v4(2);
    route.remote = v4(2, test_port);
    route.remote.ip[15] = 9; // an address that answers nobody
    route.timeout_ms = 1000;
    CHECK(verbs_test_probe(&side->ended) == 0);
    kapi_log(KAPI_LOG_INFO, "kapi_test: remove rx2");
    const int error = kapi_cm_connect(bench.net, &route, &side_ops, &*side, &side->cm);
    kapi_cm_destroy(side->cm);
    pause(2500 * millisecond);
    const unsigned worked_on = verbs_test_unprobe();
    CHECK(error == 0 && side->ended && side->end.why == KAPI_CM_DEVICE_REMOVED);
    CHECK(worked_on == 0);
    return true;
}

} // namespace test
