// SPDX-License-Identifier: GPL-2.0
// Devices, connections, messages.
#include "link.h"

#include "verbs_test.h"

namespace test {

bool devices(VerbsBench& bench)
{
    Devices& seen = *bench.devices;
    CHECK(seen.added == 2 && !seen.removed);
    for (unsigned i = 0; i < 2; i++) {
        const struct kapi_rdma_attrs& attrs = *seen.attrs[i];
        CHECK(kapi_rdma_dev_attrs(seen.dev[i]) == &attrs);
        CHECK(kapi_compare(attrs.name, "rx", 2) == 0);
        CHECK(attrs.flags & KAPI_RDMA_ATOMICS && !(attrs.flags & (KAPI_RDMA_IWARP | KAPI_RDMA_MASKED_ATOMICS)));
        CHECK(attrs.max_wr > 1000 && attrs.max_sge >= 4 && attrs.max_cqe > 1000 && attrs.max_mr > 1000);
        CHECK(attrs.max_mr_pages >= 256 && attrs.max_reads_in && attrs.max_reads_out && attrs.vectors);
        CHECK(kapi_rdma_usable(seen.dev[i], bench.net));
    }
    CHECK(seen.attrs[0]->guid != seen.attrs[1]->guid);
    kapi_rdma_dev* dev = nullptr;
    for (unsigned char subnet : {1, 2}) {
        const kapi_addr addrs[] = {v4(subnet), v6(subnet)};
        for (const kapi_addr& addr : addrs) {
            CHECK(kapi_rdma_dev_of(bench.net, &addr, &dev) == 0);
            CHECK(kapi_compare(kapi_rdma_dev_attrs(dev)->name, subnet == 1 ? "rx1" : "rx2", 4) == 0);
        }
    }
    const kapi_addr elsewhere = v4(99), any{};
    kapi_addr loopback = v4(1);
    loopback.ip[12] = 127;
    loopback.ip[13] = loopback.ip[14] = 0;
    CHECK(kapi_rdma_dev_of(bench.net, &elsewhere, &dev) == -KAPI_EADDRNOTAVAIL);
    CHECK(kapi_rdma_dev_of(bench.net, &any, &dev) == -KAPI_EADDRNOTAVAIL);
    CHECK(kapi_rdma_dev_of(bench.net, &loopback, &dev) == -KAPI_ENODEV);
    return true;
}

namespace {

// From one side to the other: sent twice, received twice, in order, with flags and length.
bool message(Side& from, Side& to)
{
    CHECK(to.receive(21, 32768, 8192) == 0 && to.receive(22, 40960, 8192) == 0);
    for (kapi_size i = 0; i < 5000; i++)
        from.memory[i] = static_cast<unsigned char>(i * 7 + i / 251);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    wr.flags = KAPI_WR_SIGNALED | KAPI_WR_SOLICITED;
    wr.cookie = 11;
    CHECK(from.send(wr, 0, 5000) == 0);
    wr.op = KAPI_WR_SEND_IMM;
    wr.imm = 0x12345678;
    wr.cookie = 12;
    CHECK(from.send(wr, 100, 10) == 0);
    for (kapi_u64 cookie : {21, 22}) {
        const kapi_wc* got = to.next();
        CHECK(got && got->status == KAPI_WC_OK && got->cookie == cookie && got->op == KAPI_WC_RECV && got->qp_context == &to);
        CHECK(got->length == (cookie == 21 ? 5000u : 10u));
        CHECK(cookie == 21 ? !(got->flags & KAPI_WC_IMM) : got->flags & KAPI_WC_IMM && got->imm == 0x12345678);
    }
    CHECK(kapi_compare(from.memory, to.memory + 32768, 5000) == 0 && kapi_compare(from.memory + 100, to.memory + 40960, 10) == 0);
    for (kapi_u64 cookie : {11, 12}) {
        const kapi_wc* sent = from.next();
        CHECK(sent && sent->status == KAPI_WC_OK && sent->cookie == cookie && sent->op == KAPI_WC_SEND && !sent->flags);
    }
    return true;
}

} // namespace

bool messages(VerbsBench& bench, kapi_cq_mode mode)
{
    OpenLink link;
    Shape shape;
    shape.mode = mode;
    CHECK(link && link->open(bench, shape));
    CHECK(message(link->a, link->b) && message(link->b, link->a));
    return true;
}

// The scene has put the device layer into its exclusive mode.
bool exclusive(VerbsBench& bench)
{
    kapi_net* other = verbs_test_other_net();
    CHECK(other);
    const bool ours = kapi_rdma_usable(bench.devices->dev[0], bench.net), theirs = kapi_rdma_usable(bench.devices->dev[0], other);
    kapi_rdma_dev* dev = nullptr;
    const kapi_addr addr = v4(1);
    const int found = kapi_rdma_dev_of(other, &addr, &dev);
    verbs_test_net_put(other);
    CHECK(ours && !theirs && found == -KAPI_EADDRNOTAVAIL);
    return true;
}

} // namespace test
