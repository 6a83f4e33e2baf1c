// SPDX-License-Identifier: GPL-2.0
// Queues: flushing, order, what cannot be posted.
#include "link.h"

#include "verbs_test.h"

namespace test {

namespace {

// One end has posted receives that nobody is going to fill.
bool open_with_receives(Link& link, VerbsBench& bench, kapi_cq_mode mode)
{
    Shape shape;
    shape.mode = mode;
    CHECK(link.open(bench, shape));
    for (kapi_u64 cookie = 0; cookie < 20; cookie++)
        CHECK(link.a.receive(cookie, cookie * 10, 10) == 0);
    return true;
}

} // namespace

bool drain(VerbsBench& bench, kapi_cq_mode mode)
{
    OpenLink link;
    CHECK(link && open_with_receives(*link, bench, mode));
    Side& a = link->a;
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND; // unsignalled, and nobody receives them
    for (wr.cookie = 100; wr.cookie < 110; wr.cookie++)
        CHECK(a.send(wr, 0, 50) == 0);
    CHECK(kapi_qp_drain(a.qp) == 0);
    CHECK(a.completed == 30); // nothing is to come
    kapi_u64 received = 0, sent = 100;
    for (unsigned i = 0; i < 30; i++) {
        const kapi_wc& wc = a.wcs[i];
        CHECK(wc.status != KAPI_WC_OK && wc.cookie == (wc.cookie < 100 ? received : sent));
        ++(wc.cookie < 100 ? received : sent);
    }
    CHECK(received == 20 && sent == 110);
    // Of a failed queue pair all are taken, and flushed.
    CHECK(a.receive(7, 0, 10) == 0);
    CHECK(a.send(wr, 0, 50) == 0);
    CHECK(kapi_qp_drain(a.qp) == 0 && a.completed == 32);
    return true;
}

// The device reports nothing for as long as the drain waits. It has less time in the next one, but callbacks have theirs.
bool drain_in_vain(VerbsBench& bench)
{
    {
        OpenLink link;
        CHECK(link && open_with_receives(*link, bench, KAPI_CQ_WORK));
        Side& a = link->a;
        CHECK(verbs_test_silence(kapi_rdma_dev_attrs(a.dev)->name, a.cq) == 0);
        const kapi_u64 since = kapi_now_ns();
        const int error = kapi_qp_drain(a.qp);
        const kapi_u64 took = kapi_now_ns() - since;
        kapi_qp_free(a.qp);
        a.qp = nullptr;
        verbs_test_be_real();
        pause(300 * millisecond);
        CHECK(error == -KAPI_ETIMEDOUT && took >= 9900 * millisecond && took < 16'000 * millisecond && !a.completed);
    }
    OpenLink link;
    CHECK(link && open_with_receives(*link, bench, KAPI_CQ_WORK));
    Side& a = link->a;
    a.after = [](Side&) { pause(700 * millisecond); };
    CHECK(kapi_qp_drain(a.qp) == 0 && a.completed == 20);
    return true;
}

// Much longer than a device has for what was posted.
bool drain_slowly(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && open_with_receives(*link, bench, KAPI_CQ_WORK));
    Side& a = link->a;
    a.after = [](Side& side) {
        side.after = nullptr;
        pause(13'000 * millisecond);
    };
    CHECK(kapi_qp_drain(a.qp) == 0 && a.completed == 20);
    return true;
}

// A softirq leaves completions to the next one when their callbacks have taken its turn.
bool short_visits(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && open_with_receives(*link, bench, KAPI_CQ_SOFTIRQ));
    Side& a = link->a;
    for (kapi_u64 cookie = 20; cookie < 32; cookie++)
        CHECK(a.receive(cookie, 0, 10) == 0);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    for (wr.cookie = 100; wr.cookie < 132; wr.cookie++)
        CHECK(a.send(wr, 0, 50) == 0);
    a.after = [](Side& side) {
        const kapi_u64 visit = verbs_test_visit(), until = kapi_now_ns() + 40 * millisecond;
        side.longer_visits += side.last_visit == visit;
        side.last_visit = visit;
        while (kapi_now_ns() < until)
            ;
    };
    CHECK(kapi_qp_drain(a.qp) == 0 && a.completed == 64 && !a.longer_visits);
    return true;
}

bool unsignalled(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    for (kapi_u64 cookie = 0; cookie < 5; cookie++)
        CHECK(link->b.receive(cookie, cookie * 100, 100) == 0);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    for (wr.cookie = 0; wr.cookie < 5; wr.cookie++) {
        wr.flags = wr.cookie == 4 ? KAPI_WR_SIGNALED : 0;
        CHECK(link->a.send(wr, 0, 100) == 0);
    }
    for (kapi_u64 cookie = 0; cookie < 5; cookie++) {
        const kapi_wc* wc = link->b.next();
        CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == cookie && wc->length == 100);
    }
    const kapi_wc* wc = link->a.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == 4);
    CHECK(link->a.completed == 1);
    return true;
}

namespace {

bool send_large(Link& link)
{
    constexpr kapi_size sizes[] = {4096, 4095, 10'000, 4096, 16};
    constexpr unsigned count = sizeof(sizes) / sizeof(sizes[0]), large = 3, last = count - 1;
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    for (wr.cookie = 0; wr.cookie < count; wr.cookie++) {
        CHECK(link.b.receive(wr.cookie, wr.cookie * 10'000, 10'000) == 0);
        wr.flags = wr.cookie == last ? KAPI_WR_SIGNALED : 0;
        CHECK(link.a.send(wr, 0, sizes[wr.cookie]) == 0);
    }
    const kapi_wc* wc = link.a.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == last && link.a.completed == 1);
    unsigned lent = 0;
    CHECK(verbs_test_large(&lent) == large && !lent);
    // An error is that of the request. Nobody receives it.
    wr.cookie = 77;
    wr.flags = 0;
    CHECK(link.a.send(wr, 0, 4096) == 0);
    wc = link.a.next();
    CHECK(wc && wc->status == KAPI_WC_RNR_EXCEEDED && wc->cookie == 77 && link.a.completed == 2);
    return true;
}

} // namespace

// Siw would send them by reference, and report that they are done when TCP has only that.
bool large_requests(VerbsBench& bench)
{
    bool ok = false;
    {
        OpenLink link;
        Shape shape;
        shape.rnr_retry = 1;
        shape.siw = true;
        ok = link && link->open(bench, shape) && send_large(*link);
    }
    verbs_test_be_real();
    return ok;
}

// What cannot be posted is returned, those before it are on their way, those behind it are not.
bool chains(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    kapi_wr wrs[3] = {}, *bad = nullptr;
    for (unsigned i = 0; i < 3; i++) {
        CHECK(link->b.receive(i, i * 100, 100) == 0);
        wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
        wrs[i].cookie = i;
        wrs[i].op = i == 1 ? KAPI_WR_MASKED_ADD : KAPI_WR_SEND;
        wrs[i].flags = KAPI_WR_SIGNALED;
    }
    CHECK(kapi_qp_send(link->a.qp, wrs, &bad) == -KAPI_EINVAL && bad == &wrs[1]);
    const kapi_wc* wc = link->b.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == 0 && wc->length == 0);
    wc = link->a.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == 0);
    wrs[1].op = KAPI_WR_SEND;
    CHECK(kapi_qp_send(link->a.qp, &wrs[1], &bad) == 0);
    for (kapi_u64 cookie : {1, 2}) {
        wc = link->b.next();
        CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == cookie);
        wc = link->a.next();
        CHECK(wc && wc->status == KAPI_WC_OK && wc->cookie == cookie);
    }
    kapi_recv_wr recvs[2] = {}, *bad_recv = nullptr;
    recvs[0].next = &recvs[1];
    recvs[1].n_sges = 1000;
    CHECK(kapi_qp_recv(link->b.qp, recvs, &bad_recv) == -KAPI_EINVAL && bad_recv == &recvs[1]);
    return true;
}

// What drivers do not refuse alike. The connection is none the worse for it.
bool impossible_requests(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    Side &a = link->a, &b = link->b;
    kapi_mr* never_mapped = nullptr;
    CHECK(kapi_mr_alloc(a.pd, 1, 0, &never_mapped) == 0);
    const struct {
        kapi_u8 op, flags;
        kapi_size length;
    } cases[] = {
        {KAPI_WR_ATOMIC_ADD, 0, 4}, {KAPI_WR_ATOMIC_ADD, 0, 16}, {KAPI_WR_ATOMIC_SWAP, 0, 0}, {KAPI_WR_READ, KAPI_WR_INLINE, 8},
        {KAPI_WR_SEND, KAPI_WR_INLINE, 32768}, {KAPI_WR_REGISTER, 0, 0}, {0, 0, 0}, {KAPI_WR_INVALIDATE + 1, 0, 0},
    };
    unsigned refused = 0;
    for (const auto& one : cases) {
        kapi_wr wr{};
        wr.op = one.op;
        wr.flags = one.flags | KAPI_WR_SIGNALED;
        wr.mr = never_mapped;
        refused += a.send(wr, 0, one.length) == -KAPI_EINVAL;
    }
    kapi_mr_free(never_mapped);
    CHECK(refused == sizeof(cases) / sizeof(cases[0]) && !a.completed);
    CHECK(b.receive(1, 0, 100) == 0);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    wr.flags = KAPI_WR_SIGNALED;
    CHECK(a.send(wr, 0, 100) == 0);
    const kapi_wc* wc = a.next();
    CHECK(wc && wc->status == KAPI_WC_OK);
    return true;
}

bool full_queue(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.rnr_retry = 7; // nobody receives, and it is tried for ever
    CHECK(link && link->open(bench, shape));
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    unsigned posted = 0;
    int error = 0;
    while (posted < 10'000 && (error = link->a.send(wr, 0, 10)) == 0)
        posted++;
    CHECK(error == -KAPI_ENOMEM && posted >= 32);
    CHECK(link->a.completed == 0);
    // Not even room for what the drain needs is left.
    CHECK(kapi_qp_drain(link->a.qp) == 0 && link->a.completed == posted);
    return true;
}

bool no_receive(VerbsBench& bench)
{
    OpenLink link;
    Shape shape;
    shape.rnr_retry = 1;
    CHECK(link && link->open(bench, shape));
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    CHECK(link->a.send(wr, 0, 10) == 0);
    const kapi_wc* wc = link->a.next();
    CHECK(wc && wc->status == KAPI_WC_RNR_EXCEEDED && wc->qp_context == &link->a);
    return true;
}

bool too_long(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    CHECK(link->b.receive(1, 0, 100) == 0);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    CHECK(link->a.send(wr, 0, 101) == 0);
    const kapi_wc* wc = link->a.next();
    CHECK(wc && wc->status == KAPI_WC_REMOTE_ERROR);
    wc = link->b.next();
    CHECK(wc && wc->status != KAPI_WC_OK && wc->cookie == 1);
    return true;
}

bool limits(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->ask(bench, {}));
    Side& a = link->a;
    const struct kapi_rdma_attrs& attrs = *kapi_rdma_dev_attrs(a.dev);
    kapi_cq* cq = nullptr;
    CHECK(kapi_cq_create(a.dev, attrs.max_cqe + 1, 0, KAPI_CQ_SOFTIRQ, nullptr, nullptr, &cq) == -KAPI_EINVAL);
    CHECK(kapi_cq_create(a.dev, 0, 0, KAPI_CQ_SOFTIRQ, nullptr, nullptr, &cq) == -KAPI_EINVAL);
    struct kapi_cm_info info;
    kapi_cm_describe(link->b.cm, &info);
    kapi_pd* pd = nullptr;
    kapi_qp* qp = nullptr;
    CHECK(kapi_pd_create(info.dev, &pd) == 0);
    link->b.pd = pd;
    kapi_qp_caps caps{attrs.max_wr + 1, 1, 1, 1, 0};
    CHECK(kapi_qp_create(link->b.cm, pd, &caps, a.cq, a.cq, nullptr, &qp) == -KAPI_EINVAL);
    caps = {1, 1, attrs.max_sge + 1, 1, 0};
    CHECK(kapi_qp_create(link->b.cm, pd, &caps, a.cq, a.cq, nullptr, &qp) == -KAPI_EINVAL);
    kapi_cm_options options{};
    options.reads_in = 255;
    CHECK(kapi_cm_accept(link->b.cm, &options) == -KAPI_EINVAL);
    options.reads_in = 0;
    options.size = KAPI_CM_ACCEPT_BYTES + 1;
    CHECK(kapi_cm_accept(link->b.cm, &options) == -KAPI_EINVAL);
    options.size = 0;
    caps = {1, 1, 1, 1, 0};
    CHECK(kapi_cq_create(info.dev, 8, 0, KAPI_CQ_DIRECT, nullptr, nullptr, &link->b.cq) == 0);
    CHECK(kapi_qp_create(link->b.cm, pd, &caps, link->b.cq, link->b.cq, nullptr, &link->b.qp) == 0);
    options.ack_timeout = 32;
    CHECK(kapi_cm_accept(link->b.cm, &options) == -KAPI_EINVAL);
    options.ack_timeout = 0;
    options.rnr_timer = 32;
    CHECK(kapi_cm_accept(link->b.cm, &options) == -KAPI_EINVAL);
    options.rnr_timer = 0;
    CHECK(kapi_cm_accept(link->b.cm, &options) == 0);
    return true;
}

} // namespace test
