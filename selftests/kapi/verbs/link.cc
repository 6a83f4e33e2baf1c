// SPDX-License-Identifier: GPL-2.0
#include "link.h"

#include "verbs_test.h"

namespace test {

namespace {

void on_resolved(void* context, kapi_rdma_dev* dev)
{
    auto* side = static_cast<Side*>(context);
    side->dev = dev;
    __atomic_store_n(&side->resolved, side->resolved + 1, __ATOMIC_RELEASE);
}

void keep(Side* side, const void* data, kapi_size size)
{
    side->size = size;
    if (data && size <= sizeof(side->data))
        kapi_copy(side->data, data, size);
}

void on_established(void* context, const void* data, kapi_size size)
{
    auto* side = static_cast<Side*>(context);
    keep(side, data, size);
    __atomic_store_n(&side->established, side->established + 1, __ATOMIC_RELEASE);
}

void on_ended(void* context, const kapi_cm_end* end)
{
    auto* side = static_cast<Side*>(context);
    side->end = *end;
    keep(side, end->data, end->size);
    __atomic_store_n(&side->ended, side->ended + 1, __ATOMIC_RELEASE);
}

void on_done(void* context, const kapi_wc* wcs, unsigned n)
{
    auto* side = static_cast<Side*>(context);
    for (unsigned i = 0; i < n; i++) {
        side->wcs[side->completed % (sizeof(side->wcs) / sizeof(side->wcs[0]))] = wcs[i];
        __atomic_store_n(&side->completed, side->completed + 1, __ATOMIC_RELEASE);
    }
    if (side->after)
        side->after(*side);
}

int on_request(void*, kapi_cm*, const struct kapi_cm_offer*, void*, kapi_size*);

} // namespace

constinit const kapi_cm_ops side_ops{on_resolved, on_established, on_ended};
constinit const kapi_cm_listener_ops link_listener_ops{on_request};

namespace {

int on_request(void* context, kapi_cm* cm, const struct kapi_cm_offer* request, void* answer, kapi_size* size)
{
    auto* link = static_cast<Link*>(context);
    link->request = *request;
    if (request->size <= sizeof(link->request_data))
        kapi_copy(link->request_data, request->data, request->size);
    if (link->shape.take && link->shape.attach) {
        kapi_cm_attach(cm, &side_ops, &link->b);
        link->b.cm = cm;
    } else if (!link->shape.take) {
        kapi_fill(answer, 'n', link->shape.answer);
        *size = link->shape.answer;
    }
    __atomic_store_n(&link->requests, link->requests + 1, __ATOMIC_RELEASE);
    return link->shape.take;
}

} // namespace

kapi_addr v4(unsigned char subnet, kapi_u16 port)
{
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, subnet, 1}, 0, port, 0};
}

kapi_addr v6(unsigned char subnet, kapi_u16 port)
{
    return {{0xfd, 0x77, 0, subnet, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0, port, 0};
}

kapi_addr link_local(unsigned char end, kapi_u16 port)
{
    return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0, end}, verbs_test_ifindex("v1"), port, 0};
}

bool Side::add_queues(const VerbsBench&, kapi_cq_mode wanted, kapi_rdma_dev* of)
{
    dev = of;
    mode = wanted;
    CHECK(kapi_pd_create(dev, &pd) == 0);
    CHECK(kapi_cq_create(dev, 256, 0, mode, on_done, this, &cq) == 0);
    kapi_qp_caps caps{32, 32, 4, 4, 0};
    CHECK(kapi_qp_create(cm, pd, &caps, cq, cq, this, &qp) == 0);
    CHECK(caps.max_send >= 32 && caps.max_recv >= 32 && caps.max_send_sge >= 4 && caps.max_recv_sge >= 4);
    memory = static_cast<unsigned char*>(kapi_alloc_contiguous(memory_size));
    CHECK(memory);
    const kapi_segment whole{memory, nullptr, 0, memory_size};
    CHECK(kapi_map_segments(&map, dev, &whole, 1, KAPI_MAP_BOTH, KAPI_SLEEP) == 0);
    mapped = true;
    return kapi_map_length(&map) == memory_size;
}

void Side::poll()
{
    if (cq && mode == KAPI_CQ_DIRECT)
        kapi_cq_poll(cq, 16);
}

int Side::send(kapi_wr& wr, kapi_size offset, kapi_size length)
{
    kapi_map_place place{0, static_cast<kapi_u32>(offset)};
    kapi_sge sges[4];
    kapi_wr* bad = nullptr;
    wr.n_sges = kapi_map_sges(&map, &place, &length, pd, sges, 4);
    wr.sges = sges;
    kapi_map_sync(&map, offset, length, KAPI_MAP_FOR_DEVICE);
    return kapi_qp_send(qp, &wr, &bad);
}

int Side::receive(kapi_u64 cookie, kapi_size offset, kapi_size length)
{
    kapi_map_place place{0, static_cast<kapi_u32>(offset)};
    kapi_sge sges[4];
    kapi_recv_wr wr{}, *bad = nullptr;
    wr.cookie = cookie;
    wr.n_sges = kapi_map_sges(&map, &place, &length, pd, sges, 4);
    wr.sges = sges;
    return kapi_qp_recv(qp, &wr, &bad);
}

const kapi_wc* Side::next()
{
    if (!eventually([this] {
            poll();
            return __atomic_load_n(&completed, __ATOMIC_ACQUIRE) > looked;
        }))
        return nullptr;
    kapi_map_sync(&map, 0, memory_size, KAPI_MAP_FOR_CPU);
    return &wcs[looked++ % (sizeof(wcs) / sizeof(wcs[0]))];
}

void Side::close()
{
    if (cm)
        kapi_cm_disconnect(cm);
    if (qp && kapi_qp_drain(qp) != 0)
        kapi_log(KAPI_LOG_ERR, "kapi_test: a queue pair cannot be drained");
    kapi_qp_free(qp);
    kapi_cm_destroy(cm);
    kapi_cq_free(cq);
    if (mapped)
        kapi_unmap(&map);
    kapi_free(memory);
    kapi_pd_free(pd);
}

bool Link::listen(const VerbsBench& bench, const Shape& wanted)
{
    shape = wanted;
    const kapi_addr any = wanted.ipv6 || wanted.both
                              ? kapi_addr{{}, 0, test_port, 0}
                              : kapi_addr{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}, 0, test_port, 0};
    CHECK(kapi_cm_listen(bench.net, KAPI_CM_IP, &any, 16, &link_listener_ops, this, &listener) == 0);
    return true;
}

int Link::begin(const VerbsBench& bench)
{
    kapi_cm_route route{};
    route.local = shape.link_local ? link_local(1) : shape.ipv6 ? v6(1) : v4(1);
    route.remote = shape.link_local ? link_local(2, shape.port) : shape.ipv6 ? v6(2, shape.port) : v4(2, shape.port);
    route.timeout_ms = 3000;
    route.tos = 32;
    return kapi_cm_connect(bench.net, &route, &side_ops, &a, &a.cm);
}

bool Link::ask_only(const VerbsBench& bench, const Shape& wanted)
{
    CHECK(listen(bench, wanted) && begin(bench) == 0);
    CHECK(eventually([this] { return a.resolved || a.ended; }));
    CHECK(a.resolved == 1 && !a.ended);
    if (shape.siw)
        CHECK(verbs_test_be_siw(kapi_rdma_dev_attrs(a.dev)->name) == 0);
    CHECK(a.add_queues(bench, shape.mode, a.dev));
    if (shape.siw)
        verbs_test_be_soft();
    kapi_cm_options options{};
    options.data = "a request";
    options.size = 9;
    options.reads_in = 5;
    options.reads_out = 7;
    options.retry = 7;
    options.rnr_retry = shape.rnr_retry;
    options.rnr_timer = 8;
    CHECK(kapi_cm_request(a.cm, &options) == 0);
    return true;
}

bool Link::ask(const VerbsBench& bench, const Shape& wanted)
{
    CHECK(ask_only(bench, wanted));
    CHECK(eventually([this] { return requests || a.ended; }));
    CHECK(requests == 1);
    return true;
}

bool Link::open(const VerbsBench& bench, const Shape& wanted)
{
    CHECK(ask(bench, wanted));
    struct kapi_cm_info info;
    kapi_cm_describe(b.cm, &info);
    CHECK(info.dev && info.port == 1);
    CHECK(b.add_queues(bench, wanted.mode, info.dev));
    kapi_cm_options options{};
    options.data = "an acceptance";
    options.size = 13;
    options.reads_in = request.reads_in;
    options.reads_out = request.reads_out;
    options.rnr_retry = wanted.rnr_retry;
    options.rnr_timer = 8;
    CHECK(kapi_cm_accept(b.cm, &options) == 0);
    CHECK(eventually([this] { return (a.established && b.established) || a.ended || b.ended; }));
    CHECK(a.established == 1 && b.established == 1 && !a.ended && !b.ended);
    return true;
}

void Link::close()
{
    a.close();
    b.close();
    if (listener)
        kapi_cm_listener_close(listener);
}

} // namespace test
