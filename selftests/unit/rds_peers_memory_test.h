// SPDX-License-Identifier: GPL-2.0
// A machine whose peers have many addresses.
#pragma once

#include "rds_peer_test.h"

#include <memory>
#include <string>
#include <vector>

#include "net/rds/connection.h"

class PeersMemory : public PeerTest {
protected:
    static constexpr kapi_u16 kPort = 1000;

    rds::Net &net() { return *reinterpret_cast<rds::Net *>(host.net().rds); }
    /** A stream from an address of its own. */
    WireStream &peer()
    {
        auto number = streams_.size();
        kapi_addr from = sim::address(("9.0.0." + std::to_string(number + 1)).c_str(), 30000); // path 0
        a.initial_net().add(from);
        WireStream &stream = *streams_.emplace_back(std::make_unique<WireStream>(a));
        EXPECT_TRUE(stream.connect(from, sim::address("10.0.0.2", 16385)));
        return stream;
    }
    static void begin_message(WireStream &stream, kapi_u32 length, std::size_t sent)
    {
        rds::Header header{};
        header.sequence = 1;
        header.length = length;
        header.sport = kPeersPort;
        header.dport = kPort;
        stream.queue(&header, sizeof(header));
        std::string bytes(sent, 'x');
        stream.queue(bytes.data(), bytes.size());
    }
    void flush_for(std::uint64_t time_ns)
    {
        for (std::uint64_t end_ns = world.now_ns() + time_ns; world.now_ns() < end_ns; world.sleep(10 * sim::kMillisecond))
            for (auto &stream : streams_)
                if (stream->has_more())
                    stream->flush();
    }
    unsigned gone(std::size_t from, std::size_t to)
    {
        unsigned count = 0;
        for (std::size_t i = from; i < to; i++)
            count += streams_[i]->is_gone();
        return count;
    }
    unsigned connections()
    {
        sim::NodeScope scope(b);
        return net().connections.size();
    }

    /** That wait, or are not acknowledged. */
    unsigned answers()
    {
        sim::NodeScope scope(b);
        unsigned count = 0;
        net().connections.for_each([&](rds::Connection &c) {
            for (bool sent : {false, true})
                c.path(0).for_each_message(sent, [&](rds::Message &) { count++; });
        });
        return count;
    }

    std::vector<std::unique_ptr<WireStream>> streams_;
};
