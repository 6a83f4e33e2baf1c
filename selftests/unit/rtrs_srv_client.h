// SPDX-License-Identifier: GPL-2.0
// A user of the RTRS server, and a client at the level of verbs, which does what a test asks for, allowed or not.
#pragma once

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/infiniband/ulp/rtrs/common/connect.h"
#include "drivers/infiniband/ulp/rtrs/common/immediate.h"
#include "drivers/infiniband/ulp/rtrs/common/info.h"
#include "drivers/infiniband/ulp/rtrs/common/request.h"
#include "drivers/infiniband/ulp/rtrs/server/glue/rtrs_srv_core.h"
#include "kapi/sim/interrupt.h"
#include "kapi_verbs_test.h"
#include "pattern.h"

/** Who has opened the server: a disk of named contents. A message is "r" or "w" and a name. */
struct SrvUser {
    struct Call {
        rtrs_srv_op *op;
        unsigned char *data;
        std::size_t size;
        std::string message, bytes; // as they were
        const void *usr;
    };
    bool keeps = false;      // requests, until answer()
    std::uint64_t sleeps_ns = 0; // in each call
    std::uint64_t sleeps_in_link_ns = 0;
    int refuses = 0;         // each call returns this
    int refuses_link = 0;    // the same of link_ev
    std::vector<Call> calls; // all of them
    std::vector<int> links;  // events of sessions
    std::map<std::string, std::string> disk;
    std::map<rtrs_srv_sess *, int> privs;
    rtrs_srv_sess *session = nullptr; // the last that connected
    sim::World *world = nullptr;

    static int rdma_ev(void *user, void *priv, rtrs_srv_op *op, void *data, kapi_size size, const void *usr, kapi_size usr_size)
    {
        auto &self = *static_cast<SrvUser *>(user);
        EXPECT_TRUE(std::any_of(self.privs.begin(), self.privs.end(), [&](const auto &given) { return priv == &given.second; }))
            << "given before the first request";
        Call call{op, static_cast<unsigned char *>(data), size, {static_cast<const char *>(usr), usr_size},
                  {static_cast<const char *>(data), size}, usr};
        self.calls.push_back(call);
        if (self.sleeps_ns)
            self.world->sleep(self.sleeps_ns);
        if (self.refuses)
            return self.refuses;
        if (!self.keeps)
            self.answer(call);
        return 0;
    }
    static int link_ev(void *user, rtrs_srv_sess *session, rtrs_srv_core_event event, void *priv)
    {
        auto &self = *static_cast<SrvUser *>(user);
        self.links.push_back(event);
        char name[rtrs::max_name + 1];
        if (self.sleeps_in_link_ns)
            self.world->sleep(self.sleeps_in_link_ns);
        if (event == RTRS_SRV_CORE_CONNECTED) {
            self.session = session;
            EXPECT_EQ(rtrs_srv_core_path_name(session, name, sizeof(name)), 0); // RNBD asks here
            EXPECT_NE(name[0], '\0');
            rtrs_srv_core_set_priv(session, &self.privs[session]);
            return self.refuses_link;
        }
        EXPECT_EQ(priv, &self.privs[session]);
        EXPECT_EQ(rtrs_srv_core_path_name(session, name, sizeof(name)), -KAPI_ENOTCONN);
        return 0;
    }
    static constexpr rtrs_srv_core_ops ops{rdma_ev, link_ev};

    /** Does what was asked for, with what is there now. Disks answer in hard interrupts. */
    void answer(const Call &call, int status = 0)
    {
        std::string name = call.message.substr(std::min<std::size_t>(1, call.message.size()));
        if (call.message.substr(0, 1) == "w")
            disk[name] = {reinterpret_cast<const char *>(call.data), call.size};
        else if (!status)
            std::memcpy(call.data, disk[name].data(), std::min(call.size, disk[name].size()));
        sim::HardInterrupt interrupt;
        rtrs_srv_core_resp(call.op, status);
    }
};

/** One path of a client. */
class SrvPath {
public:
    static constexpr kapi_size kSlot = 4096, kSlots = 64; // of received messages

    struct Got {
        int error;
        bool invalidated;
    };
    /** A connection, and all that it has received. */
    struct Link {
        SrvPath *path = nullptr;
        unsigned number = 0;
        kapi_cm *cm = nullptr;
        kapi_cq *cq = nullptr;
        kapi_qp *qp = nullptr;
        bool resolved = false, established = false;
        std::optional<kapi_cm_end> end;
        std::string data;
        std::vector<kapi_wc> sent;
        unsigned heartbeats = 0, acks = 0;
        Buffer in;
    };

    SrvPath(sim::Node &node, const char *from, const char *to) : node(node), from(from), to(to) {}

    static void hear_resolved(void *context, kapi_rdma_dev *dev)
    {
        auto &link = *static_cast<Link *>(context);
        link.path->dev = dev;
        link.resolved = true;
    }
    static void hear_established(void *context, const void *data, kapi_size size)
    {
        auto &link = *static_cast<Link *>(context);
        link.established = true;
        link.data.assign(static_cast<const char *>(data), size);
    }
    static void hear_ended(void *context, const kapi_cm_end *end)
    {
        auto &link = *static_cast<Link *>(context);
        link.end = *end;
        if (end->size)
            link.data.assign(static_cast<const char *>(end->data), end->size);
    }
    static constexpr kapi_cm_ops cm_ops{hear_resolved, hear_established, hear_ended};
    static void hear_done(void *context, const kapi_wc *wcs, unsigned n)
    {
        auto &link = *static_cast<Link *>(context);
        for (unsigned i = 0; i < n; i++)
            link.path->hear(link, wcs[i]);
    }

    void resolve(Link &link, kapi_u16 port)
    {
        kapi_cm_route route{KAPI_CM_IP, sim::address(from), sim::address(to, port), 5000, 0, 0};
        ASSERT_EQ(kapi_cm_connect(&node.initial_net(), &route, &cm_ops, &link, &link.cm), 0);
    }
    void ask(Link &link, const void *data, kapi_size size)
    {
        if (!pd) {
            ASSERT_EQ(kapi_pd_create(dev, &pd), 0);
            out.make(dev, kOut * kSlots, KAPI_MAP_BOTH);
            target.make(dev, kOut * kSlots, KAPI_MAP_BOTH);
        }
        ASSERT_EQ(kapi_cq_create(dev, 1024, 0, KAPI_CQ_SOFTIRQ, hear_done, &link, &link.cq), 0);
        kapi_qp_caps caps{256, 256, 4, 1, 0};
        ASSERT_EQ(kapi_qp_create(link.cm, pd, &caps, link.cq, link.cq, &link, &link.qp), 0);
        link.in.make(dev, kSlot * kSlots, KAPI_MAP_BOTH);
        if (link.number != deaf_link)
            post_recvs(link);
        kapi_cm_options options{};
        options.data = data;
        options.size = size;
        options.reads_in = options.reads_out = 4;
        options.retry = options.rnr_retry = 7;
        options.rnr_timer = link.number == deaf_link ? 31 : 10; // 0.5 s, 0.3 ms
        int err = kapi_cm_request(link.cm, &options);
        EXPECT_TRUE(err == 0 || link.end) << err;
    }
    void post_recvs(Link &link)
    {
        for (unsigned i = 0; i < kSlots; i++)
            post_recv(link, i);
    }
    void post_recv(Link &link, kapi_u64 slot)
    {
        kapi_sge sge = link.in.sge(pd, slot * kSlot, kSlot);
        kapi_recv_wr wr{.next = nullptr, .cookie = kRecv | slot, .sges = &sge, .n_sges = 1, .pad = 0, .opaque = {}}, *bad;
        kapi_qp_recv(link.qp, &wr, &bad);
    }
    int post(Link &link, kapi_wr wr, const kapi_sge *sge = nullptr)
    {
        wr.cookie = ++posts;
        wr.flags |= KAPI_WR_SIGNALED;
        wr.sges = sge;
        wr.n_sges = sge ? 1 : 0;
        kapi_wr *bad;
        return kapi_qp_send(link.qp, &wr, &bad);
    }
    /** Sends a message, of any contents. */
    void send(Link &link, const void *data, kapi_size size)
    {
        std::memcpy(out.bytes, data, size);
        kapi_map_sync(&out.map, 0, size, KAPI_MAP_FOR_DEVICE);
        kapi_wr wr{};
        wr.op = KAPI_WR_SEND;
        kapi_sge sge = out.sge(pd, 0, size);
        EXPECT_EQ(post(link, wr, &sge), 0);
    }
    void send_immediate(Link &link, kapi_u32 imm)
    {
        kapi_wr wr{};
        wr.op = KAPI_WR_WRITE_IMM;
        wr.imm = imm;
        EXPECT_EQ(post(link, wr), 0);
    }
    /** Writes bytes to a place in a chunk, with or without immediate data. */
    void put(Link &link, unsigned chunk, std::size_t offset, const std::string &bytes, std::optional<kapi_u32> imm)
    {
        std::size_t slot = chunk % kSlots * kOut;
        std::memcpy(out.bytes + slot, bytes.data(), bytes.size());
        kapi_map_sync(&out.map, slot, bytes.size(), KAPI_MAP_FOR_DEVICE);
        kapi_wr wr{};
        wr.op = imm ? KAPI_WR_WRITE_IMM : KAPI_WR_WRITE;
        wr.imm = imm.value_or(0);
        wr.remote = chunks[chunk].address + offset;
        wr.key = chunks[chunk].key;
        kapi_sge sge = out.sge(pd, slot, bytes.size());
        EXPECT_EQ(post(link, wr, &sge), 0);
    }
    static std::string header(const rtrs::Request &request)
    {
        unsigned char bytes[rtrs::max_request_header];
        std::size_t size = rtrs::write_request_header(bytes, request);
        return {reinterpret_cast<const char *>(bytes), size};
    }
    kapi_u32 imm_of(unsigned chunk, std::size_t offset) const
    {
        return rtrs::write_immediate(rtrs::ImmediateType::request,
                                     offer->geometry.payload_of({chunk, static_cast<kapi_u32>(offset)}));
    }
    void write(Link &link, unsigned chunk, const std::string &data, const std::string &message)
    {
        rtrs::Request request;
        request.user_bytes = static_cast<kapi_u32>(message.size());
        answers.erase(chunk);
        put(link, chunk, 0, data + message + header(request), imm_of(chunk, data.size() + message.size()));
    }
    /** Reads size bytes into a region. */
    void read(Link &link, unsigned chunk, std::size_t size, const std::string &message)
    {
        rtrs::Request request;
        request.is_read = request.has_target = true;
        request.invalidate = invalidates;
        request.user_bytes = static_cast<kapi_u32>(message.size());
        expose(link, chunk, size);
        request.target = {kapi_mr_address(regions[chunk]), kapi_mr_key(regions[chunk]), static_cast<kapi_u32>(size)};
        answers.erase(chunk);
        put(link, chunk, size, message + header(request), imm_of(chunk, size + message.size()));
    }
    /** What a read has brought. */
    std::string fetched(unsigned chunk, std::size_t size)
    {
        kapi_map_sync(&target.map, chunk % kSlots * kOut, size, KAPI_MAP_FOR_CPU);
        return target.text(chunk % kSlots * kOut, size);
    }
    void expose(Link &link, unsigned chunk, std::size_t size)
    {
        kapi_mr *&mr = regions[chunk];
        Target &part = targets[chunk];
        if (!mr) {
            ASSERT_EQ(kapi_mr_alloc(pd, 4, 0, &mr), 0);
            kapi_segment segment{target.bytes + chunk % kSlots * kOut, nullptr, 0, static_cast<kapi_u32>(size)};
            ASSERT_EQ(kapi_map_segments(&part.map, dev, &segment, 1, KAPI_MAP_BOTH, KAPI_ATOMIC), 0);
            ASSERT_EQ(kapi_mr_map(mr, &part.map), 0);
        } else {
            kapi_mr_next_key(mr);
        }
        kapi_wr wr{};
        wr.op = KAPI_WR_REGISTER;
        wr.mr = mr;
        wr.access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
        EXPECT_EQ(post(link, wr), 0);
    }
    /** All queues and connections end, from a task. */
    void drop()
    {
        is_ending = true;
        for (auto &link : links) {
            if (link->cm && link->qp && notifies)
                kapi_cm_disconnect(link->cm);
            if (link->qp) {
                EXPECT_EQ(kapi_qp_drain(link->qp), 0);
                kapi_qp_free(link->qp);
            }
            kapi_cm_destroy(link->cm);
            kapi_cq_free(link->cq);
            link->in.drop();
        }
        for (auto &[chunk, mr] : regions) {
            kapi_mr_free(mr);
            kapi_unmap(&targets[chunk].map);
        }
        regions.clear();
        links.clear();
        out.drop();
        target.drop();
        kapi_pd_free(std::exchange(pd, nullptr));
        answers.clear();
        info.clear();
        offer.reset();
        is_ending = false;
    }

    static constexpr kapi_size kOut = 16384;
    static constexpr kapi_u64 kRecv = kapi_u64{1} << 40;
    struct Target {
        kapi_map map{};
    };

    sim::Node &node;
    const char *from, *to;
    kapi_rdma_dev *dev = nullptr;
    kapi_pd *pd = nullptr;
    std::vector<std::unique_ptr<Link>> links;
    Buffer out, target;
    std::optional<rtrs::Offer> offer;
    std::vector<rtrs::RemoteChunk> chunks;
    std::map<unsigned, Got> answers;
    std::map<unsigned, kapi_mr *> regions;
    std::map<unsigned, Target> targets;
    std::string info; // the response
    unsigned duplicates = 0;
    unsigned messages = 0; // that were received
    bool invalidates = true; // asks for it
    kapi_u64 posts = 0;
    bool notifies = true; // the peer, when it ends
    bool is_ending = false; // nothing more is posted
    unsigned deaf_link = ~0u; // has no receives

private:
    void hear(Link &link, const kapi_wc &wc)
    {
        messages += (wc.cookie & kRecv) && wc.status == KAPI_WC_OK;
        if (!(wc.cookie & kRecv)) {
            link.sent.push_back(wc);
            return;
        }
        if (wc.status != KAPI_WC_OK || is_ending)
            return;
        kapi_u64 slot = wc.cookie & ~kRecv;
        std::string message;
        if (wc.op == KAPI_WC_RECV) {
            kapi_map_sync(&link.in.map, slot * kSlot, wc.length, KAPI_MAP_FOR_CPU);
            message = link.in.text(slot * kSlot, wc.length);
        }
        post_recv(link, slot);
        if (wc.flags & KAPI_WC_IMM)
            hear_immediate(link, wc.imm, message);
        else if (!message.empty())
            info = message;
    }
    void hear_immediate(Link &link, kapi_u32 imm, const std::string &message)
    {
        auto immediate = rtrs::parse_immediate(imm);
        ASSERT_TRUE(immediate);
        if (immediate->type == rtrs::ImmediateType::heartbeat) {
            link.heartbeats++;
            if (answers_heartbeats)
                send_immediate(link, rtrs::write_immediate(rtrs::ImmediateType::heartbeat_ack));
            return;
        }
        if (immediate->type == rtrs::ImmediateType::heartbeat_ack) {
            link.acks++;
            return;
        }
        auto answer = rtrs::parse_answer(immediate->payload, offer->geometry.queue_depth());
        ASSERT_TRUE(answer);
        duplicates += answers.count(answer->chunk);
        answers[answer->chunk] = {answer->error, immediate->type == rtrs::ImmediateType::response_invalidated};
        EXPECT_EQ(!message.empty(), offer->new_rkeys && !offer->whole_answers);
        if (offer->new_rkeys && offer->whole_answers)
            chunks[answer->chunk].key = rtrs::wire::next_key(chunks[answer->chunk].key);
        if (message.empty())
            return;
        auto key = rtrs::parse_rkey_response(bytes_of(message), offer->geometry.queue_depth());
        ASSERT_TRUE(key);
        EXPECT_EQ(key->chunk, answer->chunk);
        EXPECT_NE(key->key, chunks[key->chunk].key);
        chunks[key->chunk].key = key->key;
    }

public:
    static rtrs::Bytes bytes_of(const std::string &text)
    {
        return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
    }
    bool answers_heartbeats = true;
};
