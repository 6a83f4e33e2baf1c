// SPDX-License-Identifier: GPL-2.0
// How many messages go to one socket together: the sockets that receive share those that came at once.
#include "kcm_distributor_test.h"

namespace {

class KcmTogether : public KcmDistributor {
protected:
    /** The first bundle of as many messages as one can have, which arrive at once. */
    unsigned first_bundle(const Ends &ends)
    {
        constexpr unsigned kMost = 64;
        std::string all;
        for (unsigned i = 0; i < kMost; i++)
            all += number(i);
        lines.clear();
        peer_writes(ends, all);
        settle();
        const std::string field = " messages=";
        for (const std::string &line : lines)
            if (line.rfind("kcm_receive ", 0) == 0)
                return static_cast<unsigned>(std::stoul(line.substr(line.find(field) + field.size())));
        return 0;
    }
    void disable(std::size_t first, std::size_t end, int disabled)
    {
        run(a, [&] {
            for (std::size_t i = first; i < end; i++)
                EXPECT_EQ(sockets[i]->set_option(KCM_ABI_RECV_DISABLE, disabled), 0);
        });
    }
    void close(std::size_t first, std::size_t end)
    {
        run(a, [&] {
            for (std::size_t i = first; i < end; i++)
                sockets[i]->close();
        });
    }

    std::vector<std::string> &lines = a.traced.emplace();
};

TEST_F(KcmTogether, messages__are_shared_by_the_sockets_that_receive)
{
    Ends ends = open(20);
    EXPECT_EQ(first_bundle(ends), 4u); // at least
    disable(4, 20, 1);
    EXPECT_EQ(first_bundle(ends), 16u);
    disable(4, 20, 1); // they are disabled already
    EXPECT_EQ(first_bundle(ends), 16u);
    close(12, 20);
    EXPECT_EQ(first_bundle(ends), 16u);
    close(2, 4);
    EXPECT_EQ(first_bundle(ends), 32u);
    disable(4, 12, 0);
    disable(4, 12, 0);
    EXPECT_EQ(first_bundle(ends), 6u); // of 10 sockets
    close(1, 12);
    EXPECT_EQ(first_bundle(ends), 64u);
    disable(0, 1, 1);
    disable(0, 1, 0);
    EXPECT_EQ(first_bundle(ends), 64u);
}

} // namespace
