// SPDX-License-Identifier: GPL-2.0
// A host with RDS over RDMA, and at the other end verbs alone.
#pragma once

#include "kapi_verbs_test.h"
#include "net/rds/wire.h"
#include "rds_rdma_test.h"

using rds::Header;

inline constexpr kapi_u16 kCm = 18634;

inline Header header_of(const std::string &message)
{
    Header header{};
    std::memcpy(&header, message.data(), std::min(message.size(), sizeof(header)));
    return header;
}

/** The checksum in front of which a receiver adds up to nothing. */
inline void seal(Header &header)
{
    header.checksum = 0;
    unsigned char bytes[sizeof(header)];
    std::memcpy(bytes, &header, sizeof(header));
    unsigned sum = 0;
    for (std::size_t i = 0; i < sizeof(bytes); i += 2)
        sum += static_cast<unsigned>(bytes[i] << 8 | bytes[i + 1]);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    header.checksum = static_cast<kapi_u16>(~sum);
}

/** Private data as the kernel's own writes it. */
inline std::string says(const char *from, const char *to, unsigned major, unsigned minor, unsigned mask = 3)
{
    std::string bytes(32, '\0');
    kapi_addr source = sim::address(from), destination = sim::address(to);
    std::memcpy(bytes.data(), source.ip + 12, 4);
    std::memcpy(bytes.data() + 4, destination.ip + 12, 4);
    bytes[8] = static_cast<char>(major);
    bytes[9] = static_cast<char>(minor);
    bytes[11] = static_cast<char>(mask);
    return bytes;
}

// Machine a has RDS, and b the verbs: `peer`.
class RdsRdmaPeer : public RdmaTest {
protected:
    explicit RdsRdmaPeer(std::size_t memory = std::size_t{8} << 30)
    {
        a.total_memory = memory;
        run(a, [&] {
            ASSERT_EQ(host_a.load_rds(), 0);
            ASSERT_EQ(host_a.load_rdma(), 0);
        });
        run(b, [&] {
            kapi_addr any = sim::address("::", kCm);
            static constexpr kapi_cm_listener_ops ops{take};
            ASSERT_EQ(kapi_cm_listen(&b.initial_net(), KAPI_CM_IP, &any, 8, &ops, this, &listener), 0);
        });
        open(program);
    }
    ~RdsRdmaPeer() override
    {
        run(b, [&] {
            peer.drop();
            kapi_cm_listener_close(listener);
        });
        close(program);
    }

    static int take(void *context, kapi_cm *cm, const kapi_cm_offer *offer, void *, kapi_size *)
    {
        auto &self = *static_cast<RdsRdmaPeer *>(context);
        if (self.peer.cm || self.asks)
            return 0;
        self.asked.assign(static_cast<const char *>(offer->data), offer->size);
        kapi_cm_attach(cm, &Peer::ops, &self.peer);
        self.peer.cm = cm;
        return 1;
    }
    kapi_cm_options options(const std::string &data) const
    {
        kapi_cm_options made{};
        made.data = data.data();
        made.size = data.size();
        made.retry = retry;
        made.rnr_retry = 7;
        made.rnr_timer = rnr_timer;
        return made;
    }
    void accept(const std::string &data)
    {
        asks = false;
        ASSERT_TRUE(world.run_until([&] { return peer.cm != nullptr; }, 10 * sim::kSecond));
        run(b, [&] {
            kapi_cm_info info;
            kapi_cm_describe(peer.cm, &info);
            peer.dev = info.dev;
            prepare();
            kapi_cm_options with = options(data);
            ASSERT_EQ(kapi_cm_accept(peer.cm, &with), 0);
        });
    }
    void prepare()
    {
        peer.make_queues();
        for (kapi_u64 i = 0; i < Peer::kSlots; i++)
            ASSERT_EQ(peer.post_recv(i), 0);
    }
    /** Asks for a connection with this private data. */
    void ask(const std::string &data)
    {
        asks = true;
        run(b, [&] {
            kapi_cm_route to{KAPI_CM_IP, sim::address("10.0.0.2"), sim::address("10.0.0.1", kCm), 5000, 0, 0};
            ASSERT_EQ(kapi_cm_connect(&b.initial_net(), &to, &Peer::ops, &peer, &peer.cm), 0);
        });
        ASSERT_TRUE(world.run_until([&] { return peer.resolved; }, 10 * sim::kSecond));
        run(b, [&] {
            prepare();
            kapi_cm_options with = options(data);
            ASSERT_EQ(kapi_cm_request(peer.cm, &with), 0);
        });
    }
    bool wait_for(const std::function<bool()> &done) { return world.run_until(done, 10 * sim::kSecond); }
    void connect()
    {
        ask(says("10.0.0.2", "10.0.0.1", 3, 1));
        ASSERT_TRUE(wait_for([&] { return peer.established; }));
        ASSERT_FALSE(peer.end);
    }
    /** One SEND of these bytes. */
    void post(const std::string &bytes)
    {
        run(b, [&] { ASSERT_EQ(peer.send(bytes, 1, KAPI_WR_SIGNALED | KAPI_WR_SOLICITED), 0); });
        world.run_for(20 * sim::kMillisecond);
    }
    /** All up to this number. */
    void acknowledge(kapi_u64 number)
    {
        Header ack{};
        ack.ack = number;
        const std::string bytes = sealed(ack);
        run(b, [&] { // from another place: what was posted before may not have been sent
            std::memcpy(peer.out.bytes + Peer::kSlot, bytes.data(), bytes.size());
            kapi_map_sync(&peer.out.map, Peer::kSlot, bytes.size(), KAPI_MAP_FOR_DEVICE);
            kapi_wr wr = peer.make_wr(KAPI_WR_SEND, 2, KAPI_WR_SIGNALED | KAPI_WR_SOLICITED);
            ASSERT_EQ(peer.post(wr, Peer::kSlot, bytes.size()), 0);
        });
        world.run_for(20 * sim::kMillisecond);
    }
    Header data_header(std::size_t length, unsigned sequence = 1)
    {
        Header header{};
        header.sequence = sequence;
        header.length = static_cast<kapi_u32>(length);
        header.sport = header.dport = kPort;
        header.flags = rds::flag_ack_required;
        return header;
    }
    static std::string sealed(Header header, const std::string &payload = {})
    {
        seal(header);
        return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + payload;
    }
    std::string received()
    {
        std::string text;
        run(a, [&] { text = program.receive(); });
        return text;
    }

    Program program = on_a();
    kapi_cm_listener *listener = nullptr;
    Peer peer;
    bool asks = false;      // it refuses what it is asked for, until it is to accept
    kapi_u8 rnr_timer = 10; // what it asks for
    kapi_u8 retry = 7;      // of both
    std::string asked;
};
