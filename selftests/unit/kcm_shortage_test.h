// SPDX-License-Identifier: GPL-2.0
// Connections for whose messages there is not enough memory.
#pragma once

#include <kapi/sim/tcp.h>

#include "kcm_test.h"

class KcmShortage : public KcmTest {
protected:
    /** Over which segments have one size: what is kept of smaller ones takes more memory than these tests count with. */
    Ends connect()
    {
        Ends ends = KcmTest::connect();
        run(b, [&] { sim::program_socket_of(ends.there).tcb->segment_size = 16384; });
        return ends;
    }
    /** A connection on which messages of some MiB are allowed. */
    Ends attach_large(KcmSocket &socket)
    {
        Ends ends = connect();
        run(a, [&] {
            if (!socket.is_open()) {
                ASSERT_EQ(socket.open(), 0);
                ASSERT_EQ(socket.set_option(KCM_ABI_MAX_MESSAGE, 4 << 20), 0);
            }
            ASSERT_EQ(socket.attach(ends.here, by_length), 0);
        });
        return ends;
    }
    /** The peer sends, as long as it takes. */
    void start_to_write(const Ends &ends, std::string bytes)
    {
        auto kept = std::make_shared<std::string>(std::move(bytes));
        writers.push_back(world.spawn(b, "writer", [=] { sim::program_write(ends.there, kept->data(), kept->size()); }));
    }
    /** All get a part of the message, and then the rest as far as there is room. */
    void start_to_write_parts(const std::vector<Ends> &all, const std::string &message, std::size_t part = 400'000)
    {
        for (const Ends &ends : all)
            start_to_write(ends, message.substr(0, part));
        world.run_for(sim::kSecond);
        for (const Ends &ends : all)
            start_to_write(ends, message.substr(part));
    }
    /** How often the message comes in ten seconds. */
    unsigned receive_all(KcmSocket &socket, const std::string &message)
    {
        unsigned count = 0;
        for (unsigned i = 0; i < 100; i++) {
            world.run_for(100 * sim::kMillisecond);
            count += receive(socket) == message;
        }
        return count;
    }
    unsigned failed(const std::vector<Ends> &all, int error)
    {
        unsigned count = 0;
        for (const Ends &ends : all)
            count += error_of(ends) == error;
        return count;
    }

    std::vector<sim::TaskRef> writers;
};
