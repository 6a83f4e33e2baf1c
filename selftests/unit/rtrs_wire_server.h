// SPDX-License-Identifier: GPL-2.0
// A server of RTRS at the level of verbs: what it sends is decided by the test. By itself it is a well-behaved one, and a disk: a
// write stores its data under the user's message, a read returns what is stored under its message.
#pragma once

#include "kapi_verbs_test.h"

#include "drivers/infiniband/ulp/rtrs/common/connect.h"
#include "drivers/infiniband/ulp/rtrs/common/immediate.h"
#include "drivers/infiniband/ulp/rtrs/common/info.h"
#include "drivers/infiniband/ulp/rtrs/common/request.h"

#include <deque>
#include <list>
#include <map>
#include <memory>

class WireServer {
public:
    static constexpr kapi_u16 kPort = 1234;
    static constexpr kapi_size kReceive = 512;

    /** What the connections of a path share. */
    struct Memory {
        kapi_pd *pd = nullptr;
        kapi_mr *region = nullptr; // of all chunks
        Buffer chunks{};
    };
    struct Connection {
        WireServer *server;
        std::shared_ptr<Memory> memory{};
        rtrs::ConnectRequest request{};
        kapi_cm *cm = nullptr;
        kapi_rdma_dev *dev = nullptr;
        kapi_cq *cq = nullptr;
        kapi_qp *qp = nullptr;
        Buffer receives{}, out{};
        bool accepted = false, ended = false;
        unsigned slot = 0;         // of out, in turn
        bool is_service() const { return request.connection == 0; }
    };
    struct Event {
        Connection *on;
        kapi_wc wc;
        std::uint64_t came_ns;
    };
    /** A request as it came. */
    struct Request {
        Connection *on;
        kapi_u32 chunk;
        rtrs::Request parsed;
        std::string message, data;
        std::uint64_t came_ns = 0;
    };

    WireServer(sim::World &world, sim::Node &node) : world(world), node(node) {}

    void start()
    {
        stopping = false;
        task = world.spawn(node, "server", [this] { work(); });
        ASSERT_TRUE(world.run_until([this] { return listener != nullptr; }, sim::kSecond));
    }
    void stop()
    {
        stopping = true;
        EXPECT_TRUE(world.run_until([this] { return task->is_done(); }, 100 * sim::kSecond));
    }

    // ---- what a test changes
    rtrs::Geometry geometry = *rtrs::Geometry::create(8, 65536);
    std::uint64_t poll_ns = 200 * sim::kMicrosecond; // how often it looks
    int reject = 0;                // the errno of rejections
    bool mute = false;             // nothing is answered
    std::optional<rtrs::Uuid> muted{}; // nothing over this path
    bool is_mute(const Connection &on) const { return mute || muted == on.request.path; }
    bool invalidates = true;       // the keys of reads
    bool lies = false;             // says that it invalidated
    bool silent_info = false;
    int keeps_paths = 0;           // those that clients have lost, as one whose disk has their requests; the errno of its answer
    bool by_gid = false;           // listens on GIDs, too, from start() on
    std::function<void(rtrs::wire::ConnectResponse &)> change_acceptance{};
    std::function<void(std::string &)> change_info{};
    std::function<bool(Request &)> on_request{}; // true: handled

    // ---- what it has seen
    std::map<std::string, std::string> disk;
    std::list<std::unique_ptr<Connection>> connections;
    std::vector<std::string> names;
    std::vector<Request> requests;
    std::uint64_t dropped_ns = 0; // when a connection was, the last time
    unsigned asked = 0, queries = 0, heartbeats = 0, heartbeat_answers = 0, failed = 0;

    // ---- from a task of its machine
    void answer(Connection &on, kapi_u32 chunk, int error, bool invalidated = false)
    {
        auto type = invalidated ? rtrs::ImmediateType::response_invalidated : rtrs::ImmediateType::response;
        immediate(on, rtrs::write_immediate(type, rtrs::answer_payload({chunk, error})));
    }
    void immediate(Connection &on, kapi_u32 imm)
    {
        kapi_wr wr = make(KAPI_WR_WRITE_IMM);
        wr.imm = imm;
        post(on, wr, {});
    }
    void send(Connection &on, const std::string &bytes, kapi_wr_op op = KAPI_WR_SEND, kapi_u32 imm = 0)
    {
        kapi_wr wr = make(op);
        wr.imm = imm;
        post(on, wr, bytes);
    }
    void invalidate(Connection &on, kapi_u32 key)
    {
        kapi_wr wr = make(KAPI_WR_SEND_INV);
        wr.key = key;
        post(on, wr, {});
    }
    void write(Connection &on, kapi_u64 address, kapi_u32 key, const std::string &bytes)
    {
        kapi_wr wr = make(KAPI_WR_WRITE);
        wr.remote = address;
        wr.key = key;
        post(on, wr, bytes);
    }
    /** What a good server does. */
    void serve(Request &request)
    {
        if (!request.parsed.is_read) {
            disk[request.message] = request.data;
            return answer(*request.on, request.chunk, 0);
        }
        if (!disk.count(request.message))
            return answer(*request.on, request.chunk, KAPI_ENOENT);
        std::string bytes = disk[request.message];
        bytes.resize(request.parsed.target.length);
        bool target = request.parsed.has_target;
        if (target)
            write(*request.on, request.parsed.target.address, request.parsed.target.key, bytes);
        if (target && invalidates)
            invalidate(*request.on, request.parsed.target.key);
        answer(*request.on, request.chunk, 0, target && (invalidates || lies));
    }
    Connection *service(unsigned nth = 0)
    {
        for (auto &connection : connections)
            if (connection->is_service() && connection->accepted && !connection->ended && nth-- == 0)
                return connection.get();
        return nullptr;
    }
    void disconnect_all()
    {
        for (auto &connection : connections)
            kapi_cm_disconnect(connection->cm);
    }

private:
    static constexpr unsigned kSlots = 64;
    static constexpr kapi_size kOut = 65536;

    static kapi_wr make(kapi_wr_op op)
    {
        kapi_wr wr{};
        wr.op = static_cast<kapi_u8>(op);
        wr.flags = KAPI_WR_SIGNALED;
        wr.cookie = 1ull << 32;
        return wr;
    }
    void post(Connection &on, kapi_wr wr, const std::string &bytes)
    {
        kapi_sge sge{};
        if (!bytes.empty()) {
            kapi_size place = on.slot++ % kSlots * kOut;
            std::memcpy(on.out.bytes + place, bytes.data(), bytes.size());
            kapi_map_sync(&on.out.map, place, bytes.size(), KAPI_MAP_FOR_DEVICE);
            sge = on.out.sge(on.memory->pd, place, bytes.size());
            wr.sges = &sge;
            wr.n_sges = 1;
        }
        kapi_wr *bad;
        EXPECT_EQ(kapi_qp_send(on.qp, &wr, &bad), 0);
    }
    void post_receive(Connection &on, kapi_u64 slot)
    {
        kapi_sge sge = on.receives.sge(on.memory->pd, slot * kReceive, kReceive);
        kapi_recv_wr wr{.next = nullptr, .cookie = slot, .sges = &sge, .n_sges = 1, .pad = 0, .opaque = {}}, *bad;
        EXPECT_EQ(kapi_qp_recv(on.qp, &wr, &bad), 0);
    }

    /** Of one who asks for a path between other addresses, as the kernel's own refuses it: whether the path is there or not. */
    int refusal(const rtrs::ConnectRequest &request, const kapi_cm *cm)
    {
        kapi_cm_info info;
        kapi_cm_describe(cm, &info);
        auto [first, is_new] = places.try_emplace({request.path.bytes, request.path.bytes + 16}, info.local.ip[14]);
        if (first->second == info.local.ip[14])
            return 0;
        queries++;
        bool is_there = std::any_of(connections.begin(), connections.end(),
                                    [&](const auto &one) { return one->request.path == request.path; });
        return keeps_paths ? keeps_paths : is_there ? KAPI_ECONNRESET : KAPI_EEXIST;
    }
    static int on_connect(void *context, kapi_cm *cm, const kapi_cm_offer *offer, void *answer, kapi_size *size)
    {
        auto &self = *static_cast<WireServer *>(context);
        self.asked++;
        auto request = rtrs::parse_connect_request({static_cast<const hw::u8 *>(offer->data), offer->size});
        EXPECT_TRUE(request.has_value());
        if (int error = self.reject ? self.reject : self.refusal(*request, cm)) {
            auto refusal = rtrs::write_rejection(hw::Errno(error));
            std::memcpy(answer, &refusal, *size = sizeof(refusal));
            return 0;
        }
        auto connection = std::make_unique<Connection>();
        connection->server = &self;
        connection->request = *request;
        connection->cm = cm;
        static constexpr kapi_cm_ops ops{[](void *, kapi_rdma_dev *) {}, [](void *, const void *, kapi_size) {},
                                         [](void *of, const kapi_cm_end *) { static_cast<Connection *>(of)->ended = true; }};
        kapi_cm_attach(cm, &ops, connection.get());
        self.connections.push_back(std::move(connection));
        return 1;
    }
    static void on_done(void *context, const kapi_wc *wcs, unsigned n)
    {
        auto &connection = *static_cast<Connection *>(context);
        for (unsigned i = 0; i < n; i++)
            connection.server->events.push_back({&connection, wcs[i], connection.server->world.now_ns()});
    }

    void work()
    {
        kapi_addr any = sim::address("::", kPort);
        static constexpr kapi_cm_listener_ops ops{on_connect};
        EXPECT_EQ(kapi_cm_listen(&node.initial_net(), KAPI_CM_IP, &any, 64, &ops, this, &listener), 0);
        kapi_cm_listener *gids = nullptr;
        int err = by_gid ? kapi_cm_listen(&node.initial_net(), KAPI_CM_GID, &any, 64, &ops, this, &gids) : 0;
        EXPECT_EQ(err, 0);
        while (!stopping) {
            step();
            world.sleep(poll_ns);
        }
        kapi_cm_listener_close(std::exchange(listener, nullptr));
        kapi_cm_listener_close(gids);
        while (!connections.empty())
            drop(*connections.front());
        events.clear();
    }
    void step()
    {
        for (auto &connection : connections)
            if (!connection->accepted && !connection->ended)
                accept(*connection);
        for (auto at = connections.begin(); at != connections.end();) {
            Connection &one = **at++;
            if (one.ended)
                drop(one);
        }
        while (!events.empty()) {
            Event event = events.front();
            events.pop_front();
            handle(event);
        }
    }
    void accept(Connection &on)
    {
        on.accepted = true;
        kapi_cm_info info;
        kapi_cm_describe(on.cm, &info);
        on.dev = info.dev;
        make_memory(on);
        ASSERT_EQ(kapi_cq_create(on.dev, 512, 0, KAPI_CQ_SOFTIRQ, on_done, &on, &on.cq), 0);
        kapi_qp_caps caps{128, 128, 2, 1, 0};
        if (int err = kapi_qp_create(on.cm, on.memory->pd, &caps, on.cq, on.cq, &on, &on.qp)) {
            EXPECT_EQ(err, -KAPI_EINVAL) << "the client has given up";
            on.ended = true;
            return;
        }
        on.receives.make(on.dev, kReceive * 64, KAPI_MAP_FROM_DEVICE);
        on.out.make(on.dev, kOut * kSlots, KAPI_MAP_TO_DEVICE);
        for (kapi_u64 slot = 0; slot < 64; slot++)
            post_receive(on, slot);
        rtrs::wire::ConnectResponse response = rtrs::write_acceptance(geometry, false, false);
        if (change_acceptance)
            change_acceptance(response);
        kapi_cm_options options{};
        options.data = &response;
        options.size = sizeof(response);
        options.rnr_retry = 7;
        kapi_cm_accept(on.cm, &options);
        if (!on.memory->chunks.mapped)
            make_chunks(on);
    }
    void make_memory(Connection &on)
    {
        for (auto &other : connections)
            if (other->memory && other->request.path == on.request.path && other->dev == on.dev)
                on.memory = other->memory;
        if (on.memory)
            return;
        on.memory = std::make_shared<Memory>();
        ASSERT_EQ(kapi_pd_create(on.dev, &on.memory->pd), 0);
    }
    void make_chunks(Connection &on)
    {
        Memory &memory = *on.memory;
        memory.chunks.make(on.dev, geometry.total_bytes(), KAPI_MAP_BOTH);
        ASSERT_EQ(kapi_mr_alloc(memory.pd, static_cast<unsigned>(geometry.total_bytes() / 4096), 0, &memory.region), 0);
        ASSERT_EQ(kapi_mr_map(memory.region, &memory.chunks.map), 0);
        kapi_wr wr = make(KAPI_WR_REGISTER);
        wr.mr = memory.region;
        wr.access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
        kapi_wr *bad;
        EXPECT_EQ(kapi_qp_send(on.qp, &wr, &bad), 0);
    }
    void drop(Connection &one)
    {
        for (auto at = events.begin(); at != events.end();)
            at = at->on == &one ? events.erase(at) : at + 1;
        if (one.qp) {
            EXPECT_EQ(kapi_qp_drain(one.qp), 0);
            dropped_ns = world.now_ns();
            kapi_qp_free(one.qp);
        }
        for (auto at = events.begin(); at != events.end();)
            at = at->on == &one ? events.erase(at) : at + 1;
        kapi_cm_destroy(one.cm);
        kapi_cq_free(one.cq);
        one.receives.drop();
        one.out.drop();
        if (one.memory && one.memory.use_count() == 1) {
            kapi_mr_free(one.memory->region);
            one.memory->chunks.drop();
            kapi_pd_free(one.memory->pd);
        }
        connections.remove_if([&](auto &other) { return other.get() == &one; });
    }
    void handle(const Event &event)
    {
        Connection &on = *event.on;
        const kapi_wc &wc = event.wc;
        if (wc.status != KAPI_WC_OK) {
            failed += wc.status != KAPI_WC_FLUSHED;
            return;
        }
        if (wc.cookie >> 32)
            return;
        if (wc.op == KAPI_WC_RECV)
            inform(on, wc);
        else
            take(on, wc.imm, event.came_ns);
        post_receive(on, wc.cookie);
    }
    void inform(Connection &on, const kapi_wc &wc)
    {
        kapi_map_sync(&on.receives.map, wc.cookie * kReceive, wc.length, KAPI_MAP_FOR_CPU);
        std::string bytes = on.receives.text(wc.cookie * kReceive, wc.length);
        auto name = rtrs::parse_info_request({reinterpret_cast<const hw::u8 *>(bytes.data()), bytes.size()});
        ASSERT_TRUE(name.has_value());
        names.emplace_back(name->text);
        if (silent_info)
            return;
        std::vector<rtrs::wire::Descriptor> chunks(1);
        chunks[0] = {kapi_mr_address(on.memory->region), kapi_mr_key(on.memory->region),
                     static_cast<kapi_u32>(geometry.total_bytes())};
        std::string response(rtrs::info_response_bytes(1), '\0');
        rtrs::write_info_response({reinterpret_cast<hw::u8 *>(response.data()), response.size()}, chunks);
        if (change_info)
            change_info(response);
        send(on, response);
    }
    void take(Connection &on, kapi_u32 imm, std::uint64_t came_ns)
    {
        auto immediate_data = rtrs::parse_immediate(imm);
        ASSERT_TRUE(immediate_data.has_value());
        if (immediate_data->type == rtrs::ImmediateType::heartbeat) {
            heartbeats++;
            if (!is_mute(on))
                immediate(on, rtrs::write_immediate(rtrs::ImmediateType::heartbeat_ack));
            return;
        }
        if (immediate_data->type == rtrs::ImmediateType::heartbeat_ack) {
            heartbeat_answers++;
            return;
        }
        auto place = geometry.place_of(immediate_data->payload);
        ASSERT_TRUE(place.has_value());
        Buffer &chunks = on.memory->chunks;
        kapi_size begin = place->chunk * geometry.chunk_bytes();
        kapi_map_sync(&chunks.map, begin, geometry.chunk_bytes(), KAPI_MAP_FOR_CPU);
        Request request{&on, place->chunk, {}, {}, {}, came_ns};
        ASSERT_TRUE(rtrs::parse_request({chunks.bytes + begin, geometry.chunk_bytes()}, place->offset, request.parsed));
        request.message = chunks.text(begin + request.parsed.data_bytes, request.parsed.user_bytes);
        if (!request.parsed.is_read)
            request.data = chunks.text(begin, request.parsed.data_bytes);
        kapi_map_sync(&chunks.map, begin, geometry.chunk_bytes(), KAPI_MAP_FOR_DEVICE);
        requests.push_back(request);
        if (is_mute(on) || (on_request && on_request(request)))
            return;
        serve(request);
    }

    sim::World &world;
    sim::Node &node;
    sim::TaskRef task;
    kapi_cm_listener *listener = nullptr;
    bool stopping = false;
    std::deque<Event> events;
    std::map<std::string, unsigned> places; // of paths: the network that they were first asked for in
};
