// SPDX-License-Identifier: GPL-2.0
// Two machines with an RDMA device each, and one connection between them, for tests of the simulated device.
#pragma once

#include "kapi_sim_test.h"

#include <hawser/verbs.h>
#include <kapi/errno.h>
#include <kapi/sim/rdma_control.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

/** Memory of a machine that its device may use. */
struct Buffer {
    unsigned char *bytes = nullptr;
    kapi_map map{};
    bool mapped = false;

    void make(kapi_rdma_dev *dev, std::size_t size, kapi_map_direction direction)
    {
        bytes = static_cast<unsigned char *>(kapi_alloc_contiguous(size));
        ASSERT_NE(bytes, nullptr);
        kapi_segment segment{bytes, nullptr, 0, static_cast<kapi_u32>(size)};
        ASSERT_EQ(kapi_map_segments(&map, dev, &segment, 1, direction, KAPI_ATOMIC), 0);
        mapped = true;
    }
    kapi_sge sge(kapi_pd *pd, kapi_size offset, kapi_size length)
    {
        kapi_map_place place{0, static_cast<kapi_u32>(offset)};
        kapi_sge one{};
        EXPECT_EQ(kapi_map_sges(&map, &place, &length, pd, &one, 1), 1u);
        return one;
    }
    std::string text(std::size_t offset, std::size_t length) const
    {
        return {reinterpret_cast<const char *>(bytes) + offset, length};
    }
    void drop()
    {
        if (mapped)
            kapi_unmap(&map);
        mapped = false;
        kapi_free(std::exchange(bytes, nullptr));
    }
};

/** One end of a connection, with its queues, and all that it has heard. */
struct Peer {
    static constexpr kapi_size kSlot = 20480, kSlots = 16;

    kapi_rdma_dev *dev = nullptr;
    kapi_pd *pd = nullptr;
    kapi_cq *send_cq = nullptr, *recv_cq = nullptr;
    kapi_qp *qp = nullptr;
    kapi_cm *cm = nullptr;
    Buffer in, out;
    kapi_qp_caps caps{64, 64, 4, 4, 0};
    kapi_cq_mode mode = KAPI_CQ_SOFTIRQ;

    bool resolved = false, established = false;
    std::optional<kapi_cm_end> end;
    std::string data;   // of the peer's acceptance or rejection
    std::vector<kapi_wc> sent, received;
    std::vector<std::string> messages; // that were received
    std::function<void(const kapi_wc &)> on_done{};

    static void hear_resolved(void *context, kapi_rdma_dev *dev)
    {
        auto &self = *static_cast<Peer *>(context);
        self.resolved = true;
        self.dev = dev;
    }
    static void hear_established(void *context, const void *data, kapi_size size)
    {
        auto &self = *static_cast<Peer *>(context);
        EXPECT_FALSE(self.established);
        self.established = true;
        if (size)
            self.data.assign(static_cast<const char *>(data), size);
    }
    static void hear_ended(void *context, const kapi_cm_end *end)
    {
        auto &self = *static_cast<Peer *>(context);
        EXPECT_FALSE(self.end);
        self.end = *end;
        if (end->size)
            self.data.assign(static_cast<const char *>(end->data), end->size);
    }
    static constexpr kapi_cm_ops ops{hear_resolved, hear_established, hear_ended};

    static void sent_some(void *context, const kapi_wc *wcs, unsigned n)
    {
        auto &self = *static_cast<Peer *>(context);
        for (unsigned i = 0; i < n; i++) {
            self.sent.push_back(wcs[i]);
            if (self.on_done)
                self.on_done(wcs[i]);
        }
    }
    static void received_some(void *context, const kapi_wc *wcs, unsigned n)
    {
        auto &self = *static_cast<Peer *>(context);
        for (unsigned i = 0; i < n; i++) {
            self.received.push_back(wcs[i]);
            if (self.on_done)
                self.on_done(wcs[i]);
            if (!wcs[i].status && wcs[i].op == KAPI_WC_RECV) {
                kapi_map_sync(&self.in.map, wcs[i].cookie * kSlot, wcs[i].length, KAPI_MAP_FOR_CPU);
                self.messages.push_back(self.in.text(wcs[i].cookie * kSlot, wcs[i].length));
            }
        }
    }

    int try_queues()
    {
        if (int err = kapi_pd_create(dev, &pd))
            return err;
        if (int err = kapi_cq_create(dev, 128, 0, mode, sent_some, this, &send_cq))
            return err;
        if (int err = kapi_cq_create(dev, 128, 0, mode, received_some, this, &recv_cq))
            return err;
        return kapi_qp_create(cm, pd, &caps, send_cq, recv_cq, this, &qp);
    }
    void make_queues(bool may_have_ended = false)
    {
        int err = try_queues();
        if (may_have_ended && (err == -KAPI_EINVAL || err == -KAPI_ENODEV))
            return;
        ASSERT_EQ(err, 0);
        in.make(dev, kSlot * kSlots, KAPI_MAP_FROM_DEVICE);
        out.make(dev, kSlot * kSlots, KAPI_MAP_BOTH);
    }
    int post_recv(kapi_u64 slot, kapi_size size = kSlot)
    {
        kapi_sge sge = in.sge(pd, slot * kSlot, size);
        kapi_recv_wr wr{.next = nullptr, .cookie = slot, .sges = &sge, .n_sges = 1, .pad = 0, .opaque = {}}, *bad;
        return kapi_qp_recv(qp, &wr, &bad);
    }
    kapi_wr make_wr(kapi_wr_op op, kapi_u64 cookie, unsigned flags = KAPI_WR_SIGNALED)
    {
        kapi_wr wr{};
        wr.op = static_cast<kapi_u8>(op);
        wr.cookie = cookie;
        wr.flags = static_cast<kapi_u8>(flags);
        return wr;
    }
    int post(kapi_wr wr, kapi_size offset = 0, kapi_size length = 0)
    {
        kapi_sge sge{};
        if (length) {
            sge = out.sge(pd, offset, length);
            wr.sges = &sge;
            wr.n_sges = 1;
        }
        kapi_wr *bad;
        return kapi_qp_send(qp, &wr, &bad);
    }
    int send(const std::string &text, kapi_u64 cookie = 1, unsigned flags = KAPI_WR_SIGNALED)
    {
        std::memcpy(out.bytes, text.data(), text.size());
        kapi_map_sync(&out.map, 0, text.size(), KAPI_MAP_FOR_DEVICE);
        return post(make_wr(KAPI_WR_SEND, cookie, flags), 0, text.size());
    }
    void drop_queues()
    {
        if (qp) {
            EXPECT_EQ(kapi_qp_drain(qp), 0);
            kapi_qp_free(std::exchange(qp, nullptr));
        }
    }
    void drop()
    {
        drop_queues();
        kapi_cm_destroy(std::exchange(cm, nullptr));
        kapi_cq_free(std::exchange(send_cq, nullptr));
        kapi_cq_free(std::exchange(recv_cq, nullptr));
        in.drop();
        out.drop();
        kapi_pd_free(std::exchange(pd, nullptr));
    }
};

class VerbsTest : public SimTest, public ::testing::WithParamInterface<int> {
protected:
    static constexpr kapi_u16 kPort = 18634;
    static constexpr kapi_u64 kRegister = 1001, kInvalidate = 1002, kOperate = 1003;

    VerbsTest() : SimTest(static_cast<std::uint64_t>(GetParam())) {}

    void plug()
    {
        dev_a = &sim::plug_rdma(a.initial_net(), "rxe_a");
        dev_b = &sim::plug_rdma(b.initial_net(), "rxe_b");
    }
    static int take(void *context, kapi_cm *cm, const kapi_cm_offer *offer, void *answer, kapi_size *size)
    {
        auto &self = *static_cast<VerbsTest *>(context);
        self.asked.assign(static_cast<const char *>(offer->data), offer->size);
        self.requests++;
        if (!self.refusal.empty()) {
            std::memcpy(answer, self.refusal.data(), self.refusal.size());
            *size = self.refusal.size();
            return 0;
        }
        kapi_cm_attach(cm, &Peer::ops, &self.server);
        self.server.cm = cm;
        return 1;
    }
    void listen()
    {
        run(b, [&] {
            kapi_addr any = sim::address("::", kPort);
            static constexpr kapi_cm_listener_ops ops{take};
            ASSERT_EQ(kapi_cm_listen(&b.initial_net(), KAPI_CM_IP, &any, 8, &ops, this, &listener), 0);
        });
    }
    kapi_cm_route route(kapi_u16 port = kPort) const
    {
        return {KAPI_CM_IP, sim::address("::"), sim::address("10.0.0.2", port), 5000, 0, 0};
    }
    kapi_cm_options options(const std::string &data) const
    {
        kapi_cm_options made{};
        made.data = data.data();
        made.size = data.size();
        made.reads_in = made.reads_out = 4;
        made.retry = retry;
        made.rnr_retry = rnr_retry;
        made.rnr_timer = 10;
        return made;
    }
    void resolve()
    {
        run(a, [&] {
            kapi_cm_route to = route();
            ASSERT_EQ(kapi_cm_connect(&a.initial_net(), &to, &Peer::ops, &client, &client.cm), 0);
        });
        ASSERT_TRUE(world.run_until([&] { return client.resolved; }, 10 * sim::kSecond));
    }
    void ask(const std::string &hello = "hello")
    {
        run(a, [&] {
            client.make_queues();
            kapi_cm_options asks = options(hello);
            ASSERT_EQ(kapi_cm_request(client.cm, &asks), 0);
        });
    }
    void accept(unsigned receives = Peer::kSlots)
    {
        ASSERT_TRUE(world.run_until([&] { return server.cm != nullptr; }, 100 * sim::kSecond));
        run(b, [&] {
            kapi_cm_info info;
            kapi_cm_describe(server.cm, &info);
            server.dev = info.dev;
            server.make_queues();
            for (unsigned i = 0; i < receives; i++)
                ASSERT_EQ(server.post_recv(i), 0);
            std::string welcome = "welcome";
            kapi_cm_options accepts = options(welcome);
            ASSERT_EQ(kapi_cm_accept(server.cm, &accepts), 0);
        });
    }
    /** From nothing to a connection that both ends know. */
    void connect(unsigned receives = Peer::kSlots)
    {
        plug();
        listen();
        resolve();
        ask();
        accept(receives);
        ASSERT_TRUE(wait([&] { return client.established; }, 100 * sim::kSecond));
    }
    /** A region of memory that peers of `peer` may use, valid. */
    kapi_mr *expose(sim::Node &node, Peer &peer, Buffer &memory, kapi_size size, unsigned access)
    {
        kapi_mr *mr = nullptr;
        run(node, [&] {
            memory.make(peer.dev, size, KAPI_MAP_BOTH);
            ASSERT_EQ(kapi_mr_alloc(peer.pd, 16, 0, &mr), 0);
            ASSERT_EQ(kapi_mr_map(mr, &memory.map), 0);
        });
        register_again(node, peer, mr, access);
        return mr;
    }
    void register_again(sim::Node &node, Peer &peer, kapi_mr *mr, unsigned access)
    {
        std::size_t before = peer.sent.size();
        run(node, [&] {
            kapi_wr wr = peer.make_wr(KAPI_WR_REGISTER, kRegister);
            wr.mr = mr;
            wr.access = static_cast<kapi_u8>(access);
            ASSERT_EQ(peer.post(wr), 0);
        });
        ASSERT_TRUE(wait([&] { return peer.sent.size() > before; }));
        ASSERT_EQ(peer.sent.back().status, KAPI_WC_OK);
    }
    void invalidate(sim::Node &node, Peer &peer, kapi_mr *mr)
    {
        std::size_t before = peer.sent.size();
        run(node, [&] {
            kapi_wr wr = peer.make_wr(KAPI_WR_INVALIDATE, kInvalidate);
            wr.key = kapi_mr_key(mr);
            ASSERT_EQ(peer.post(wr), 0);
        });
        ASSERT_TRUE(wait([&] { return peer.sent.size() > before; }));
    }
    void drop_region(sim::Node &node, kapi_mr *mr, Buffer &memory)
    {
        run(node, [&] {
            kapi_mr_free(mr);
            memory.drop();
        });
    }
    /** What the client asks of the server's memory; returns how that ended. */
    kapi_wc_status operate(kapi_wr_op op, kapi_u32 key, kapi_u64 remote, kapi_size length, kapi_u64 value = 0,
                           kapi_u64 compare = 0)
    {
        std::size_t before = client.sent.size();
        run(a, [&] {
            kapi_wr wr = client.make_wr(op, kOperate);
            wr.key = key;
            wr.remote = remote;
            wr.imm = 77;
            wr.add_or_swap = value;
            wr.compare = compare;
            ASSERT_EQ(client.post(wr, 0, length), 0);
        });
        EXPECT_TRUE(wait([&] { return client.sent.size() > before; }, 100 * sim::kSecond));
        return client.sent.back().status;
    }
    bool wait(const std::function<bool()> &done, std::uint64_t limit_ns = 10 * sim::kSecond)
    {
        return world.run_until(done, limit_ns);
    }
    void close_listener()
    {
        run(b, [&] { kapi_cm_listener_close(std::exchange(listener, nullptr)); });
    }
    void close_all()
    {
        run(a, [&] { client.drop(); });
        run(b, [&] { server.drop(); });
        close_listener();
    }

    kapi_rdma_dev *dev_a = nullptr, *dev_b = nullptr;
    kapi_cm_listener *listener = nullptr;
    std::string asked, refusal;
    unsigned requests = 0;
    kapi_u8 retry = 7, rnr_retry = 7;
    Peer client, server;
};
