// SPDX-License-Identifier: GPL-2.0
// Connections: what travels with them, how they are refused, how they end.
#include "link.h"

#include "verbs_test.h"

namespace test {

bool connect_private_data(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    CHECK(link->request.size == KAPI_CM_REQUEST_BYTES && kapi_compare(link->request_data, "a request\0\0\0", 12) == 0);
    CHECK(link->request.reads_in == 7 && link->request.reads_out == 5 && link->request.tos == 32 && link->request.retry == 7);
    CHECK(link->a.size == KAPI_CM_ACCEPT_BYTES && kapi_compare(link->a.data, "an acceptance\0\0", 15) == 0);
    CHECK(link->b.size == 0);
    return true;
}

bool connect_ipv6(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.ipv6 = true;
    CHECK(link && link->open(bench, shape));
    struct kapi_cm_info here, there;
    kapi_cm_describe(link->a.cm, &here);
    kapi_cm_describe(link->b.cm, &there);
    const kapi_addr local = v6(1), remote = v6(2, test_port);
    CHECK(kapi_compare(here.local.ip, local.ip, 16) == 0 && kapi_compare(&here.remote, &remote, sizeof(remote)) == 0);
    CHECK(kapi_compare(&there.local, &remote, sizeof(remote)) == 0);
    CHECK(kapi_compare(there.remote.ip, local.ip, 16) == 0 && there.remote.port == here.local.port && here.local.port);
    // A GID of RoCE is the address.
    CHECK(kapi_compare(here.local_gid, local.ip, 16) == 0 && kapi_compare(here.remote_gid, remote.ip, 16) == 0);
    return true;
}

// A request does not contain the link that it has come over; its device is known.
bool connect_link_local(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.ipv6 = shape.link_local = true;
    CHECK(link && link->open(bench, shape));
    struct kapi_cm_info here, there;
    kapi_cm_describe(link->a.cm, &here);
    kapi_cm_describe(link->b.cm, &there);
    const kapi_u32 first = verbs_test_ifindex("v1"), second = verbs_test_ifindex("v2");
    CHECK(here.local.scope == first && here.remote.scope == first);
    CHECK(there.local.scope == second && there.remote.scope == second);
    return true;
}

// A listener for both families gets requests of IPv4, too.
bool connect_v4_to_both(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.both = true;
    CHECK(link && link->open(bench, shape));
    struct kapi_cm_info info;
    kapi_cm_describe(link->b.cm, &info);
    const kapi_addr local = v4(2, test_port), remote = v4(1);
    CHECK(kapi_compare(&info.local, &local, sizeof(local)) == 0 && kapi_compare(info.remote.ip, remote.ip, 16) == 0);
    return true;
}

bool connect_rejected(VerbsBench& bench)
{
    for (kapi_size answer : {0, 20, KAPI_CM_REJECT_BYTES}) {
        OpenLink link;
        Shape shape;
        shape.take = false;
        shape.answer = answer;
        CHECK(link && link->ask(bench, shape));
        CHECK(eventually([&] { return link->a.ended; }));
        const kapi_cm_end& end = link->a.end;
        CHECK(end.why == KAPI_CM_REJECTED && end.error == -KAPI_ECONNREFUSED && end.reason == 28);
        CHECK(end.size == KAPI_CM_REJECT_BYTES);
        for (kapi_size i = 0; i < KAPI_CM_REJECT_BYTES; i++)
            CHECK(link->a.data[i] == (i < answer ? 'n' : 0));
        kapi_cm_options options{};
        CHECK(kapi_cm_request(link->a.cm, &options) == -KAPI_EINVAL);
        CHECK(link->a.ended == 1 && !link->a.established);
    }
    return true;
}

bool connect_rejected_later(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->ask(bench, {}));
    pause(300 * millisecond);
    kapi_cm_reject(link->b.cm, "later", 5);
    CHECK(eventually([&] { return link->a.ended; }));
    CHECK(link->a.end.why == KAPI_CM_REJECTED && kapi_compare(link->a.data, "later\0", 6) == 0);
    return true;
}

// Taken, and nothing is to be called for it: refused all the same.
bool connect_forgotten(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.attach = false;
    CHECK(link && link->ask(bench, shape));
    CHECK(eventually([&] { return link->a.ended; }));
    CHECK(link->a.end.why == KAPI_CM_REJECTED);
    return true;
}

// Nobody listens: the peer's connection manager reports that, and has no data.
bool connect_to_nobody(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link);
    Shape shape;
    shape.port = test_port + 1;
    CHECK(link->ask_only(bench, shape));
    CHECK(eventually([&] { return link->a.ended; }));
    CHECK(link->a.end.why == KAPI_CM_REJECTED && link->a.end.reason == 8 && !link->a.end.data && !link->a.end.size);
    return true;
}

bool connect_errors(VerbsBench& bench)
{
    Boxed<Side> side;
    CHECK(side);
    kapi_cm_route route{};
    route.local = v4(99);
    route.remote = v4(2, test_port);
    route.timeout_ms = 1000;
    CHECK(kapi_cm_connect(bench.net, &route, &side_ops, &*side, &side->cm) == -KAPI_EADDRNOTAVAIL);
    route.local.ip[12] = 127;
    route.local.ip[13] = route.local.ip[14] = 0;
    CHECK(kapi_cm_connect(bench.net, &route, &side_ops, &*side, &side->cm) == -KAPI_ENODEV);
    route.local = kapi_addr{};
    route.remote = v4(77, test_port);
    const int error = kapi_cm_connect(bench.net, &route, &side_ops, &*side, &side->cm);
    if (error == 0) {
        const bool ended = eventually([&] { return side->ended; });
        kapi_cm_destroy(side->cm);
        CHECK(ended && side->end.why == KAPI_CM_UNRESOLVED && side->end.error < 0 && !side->resolved);
    } else {
        CHECK(error == -KAPI_ENETUNREACH);
    }
    return true;
}

bool listen_errors(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    kapi_cm_listener* other = nullptr;
    kapi_addr addr{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}, 0, test_port, 0};
    CHECK(kapi_cm_listen(bench.net, KAPI_CM_IP, &addr, 1, &link_listener_ops, &*link, &other) == -KAPI_EADDRINUSE);
    addr = v4(1, test_port + 1);
    CHECK(kapi_cm_listen(bench.net, KAPI_CM_IP, &addr, 1, &link_listener_ops, &*link, &other) == -KAPI_EINVAL);
    addr = kapi_addr{{}, 0, test_port, 0};
    const int error = kapi_cm_listen(bench.net, KAPI_CM_GID, &addr, 1, &link_listener_ops, &*link, &other);
    CHECK(error == 0 || error == -KAPI_EAFNOSUPPORT);
    if (error == 0)
        kapi_cm_listener_close(other);
    return true;
}

// Each end's is reported to the other, and what was posted is flushed.
bool disconnect(VerbsBench& bench)
{
    for (bool politely : {true, false}) {
        OpenLink link;
        CHECK(link && link->open(bench));
        for (kapi_u64 cookie = 0; cookie < 10; cookie++)
            CHECK(link->a.receive(cookie, cookie * 100, 100) == 0);
        if (politely) {
            kapi_cm_disconnect(link->b.cm);
        } else {
            CHECK(kapi_qp_drain(link->b.qp) == 0);
            kapi_qp_free(link->b.qp);
            link->b.qp = nullptr;
            kapi_cm_destroy(link->b.cm);
            link->b.cm = nullptr;
        }
        CHECK(eventually([&] { return link->a.ended; }));
        CHECK(link->a.ended == 1 && link->a.end.why == KAPI_CM_DISCONNECTED && link->a.end.error == -KAPI_ECONNRESET);
        kapi_cm_disconnect(link->a.cm);
        for (kapi_u64 cookie = 0; cookie < 10; cookie++) {
            const kapi_wc* wc = link->a.next();
            CHECK(wc && wc->status == KAPI_WC_FLUSHED && wc->cookie == cookie && wc->qp_context == &link->a);
        }
        if (politely)
            CHECK(eventually([&] { return link->b.ended; }) && link->b.end.why == KAPI_CM_DISCONNECTED);
    }
    return true;
}

// At any moment of connecting it may be given up.
bool destroy_early(VerbsBench& bench)
{
    for (unsigned us = 0; us < 40'000; us += 1000) {
        OpenLink link;
        CHECK(link && link->listen(bench, {}));
        CHECK(link->begin(bench) == 0);
        pause(us * 1000ull);
    }
    for (unsigned i = 0; i < 5; i++) {
        OpenLink link;
        CHECK(link && link->ask(bench, {}));
    }
    return true;
}

} // namespace test
