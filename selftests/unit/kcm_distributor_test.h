// SPDX-License-Identifier: GPL-2.0
// Several sockets of one multiplexor, and what each of them gets.
#pragma once

#include "kcm_test.h"

class KcmDistributor : public KcmTest {
protected:
    explicit KcmDistributor(std::uint64_t seed = 1) : KcmTest(seed) {}
    /** Sockets of one multiplexor with one connection. */
    Ends open(std::size_t count, kapi_u32 rcvbuf = 212'992)
    {
        for (std::size_t i = 0; i < count; i++)
            sockets.push_back(&new_socket());
        Ends ends = open_with_one(*sockets[0]);
        run(a, [&] {
            for (std::size_t i = 1; i < count; i++)
                EXPECT_EQ(sockets[i]->open_as_clone(*sockets[0]), 0);
            for (KcmSocket *socket : sockets)
                socket->sk().rcvbuf = rcvbuf;
        });
        return ends;
    }
    static std::string number(unsigned i) { return framed("message " + std::to_string(i)); }
    /** Writes these messages, each alone. */
    void write_one_by_one(const Ends &ends, unsigned from, unsigned to)
    {
        for (unsigned i = from; i < to; i++) {
            peer_writes(ends, number(i));
            world.run_for(5 * sim::kMillisecond);
        }
    }
    /** The first socket has these messages, and the others nothing. */
    Ends open_with_messages(std::size_t count, unsigned messages)
    {
        Ends ends = open(count);
        auto disable_others = [&](int disabled) {
            run(a, [&] {
                for (std::size_t i = 1; i < count; i++)
                    EXPECT_EQ(sockets[i]->set_option(KCM_ABI_RECV_DISABLE, disabled), 0);
            });
        };
        disable_others(1);
        for (unsigned i = 0; i < messages; i++) {
            peer_writes(ends, number(i));
            world.run_for(200'000); // alone in a bundle
        }
        settle();
        disable_others(0);
        return ends;
    }
    std::vector<std::string> drain(KcmSocket &socket)
    {
        std::vector<std::string> all;
        for (std::string got; (got = receive(socket)) != kNothing;)
            all.push_back(got);
        return all;
    }

    std::vector<KcmSocket *> sockets;
};
