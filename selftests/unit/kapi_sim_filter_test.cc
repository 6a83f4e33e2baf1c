// SPDX-License-Identifier: GPL-2.0
// Programs' filters and descriptors in the simulator.
#include "kapi_sim_test.h"

#include <kapi/errno.h>
#include <kapi/filter.h>
#include <kapi/stream.h>

#include <vector>

namespace {

using Filter = SimTest;

TEST_F(Filter, get__knows_descriptors)
{
    run(a, [&] {
        int fd = sim::program_length_filter(), other = sim::program_other_socket();
        kapi_filter *filter = nullptr;
        EXPECT_EQ(kapi_filter_get(-1, &filter), -KAPI_EBADF);
        EXPECT_EQ(kapi_filter_get(other, &filter), -KAPI_EINVAL);
        EXPECT_EQ(kapi_filter_get(fd, &filter), 0);
        sim::program_close(fd); // the reference keeps it
        EXPECT_EQ(kapi_filter_run(filter, "\0\0\1\2x", 5), 0x102 + 4);
        EXPECT_EQ(kapi_filter_run(filter, "\0\0\1", 3), 0);
        EXPECT_EQ(kapi_filter_run(filter, "\xff\xff\xff\xf0", 4), -12);
        kapi_filter_put(filter);
        kapi_filter_put(nullptr);
        sim::program_close(other);
    });
}

TEST_F(Filter, run__shows_at_most_a_view)
{
    run(a, [&] {
        int fd = sim::program_filter([](const unsigned char *, std::size_t size) { return static_cast<int>(size); });
        kapi_filter *filter = nullptr;
        ASSERT_EQ(kapi_filter_get(fd, &filter), 0);
        std::vector<char> bytes(KAPI_FILTER_VIEW + 1);
        EXPECT_EQ(kapi_filter_run(filter, bytes.data(), KAPI_FILTER_VIEW), KAPI_FILTER_VIEW);
        EXPECT_DEATH(kapi_filter_run(filter, bytes.data(), bytes.size()), "is shown 4097 bytes");
        kapi_filter_put(filter);
        sim::program_close(fd);
    });
}

TEST(Leaks, descriptors_and_filters_are_found)
{
    auto leak = [](const std::function<void()> &body) {
        sim::World world(1);
        sim::Node &node = world.add_node("a");
        world.spawn(node, "test", body);
        world.run_for(sim::kSecond);
    };
    EXPECT_DEATH(leak([] { sim::program_pipe(); }), "leaks 1 descriptors");
    EXPECT_DEATH(leak([] {
                     int fd = sim::program_length_filter();
                     kapi_filter *filter;
                     EXPECT_EQ(kapi_filter_get(fd, &filter), 0);
                     sim::program_close(fd);
                 }),
                 "leaks 1 filters");
}

TEST_F(Filter, socket_error__is_taken_once)
{
    run(a, [&] {
        kapi_sk *sk = sim::make_sk(a.initial_net());
        EXPECT_EQ(kapi_sk_take_error(sk), 0);
        kapi_sk_set_error(sk, KAPI_EPIPE);
        EXPECT_TRUE(kapi_sk_has_error(sk));
        EXPECT_EQ(kapi_sk_take_error(sk), -KAPI_EPIPE);
        EXPECT_FALSE(kapi_sk_has_error(sk));
        for (int none : {KAPI_EINTR, KAPI_ERESTARTSYS}) { // as the kernel's, which leaves them behind a recvmmsg()
            kapi_sk_set_error(sk, none);
            EXPECT_FALSE(kapi_sk_has_error(sk));
            EXPECT_EQ(kapi_sk_take_error(sk), 0);
            EXPECT_EQ(sk->error, 0);
        }
        kapi_sk_put(sk);
    });
}

} // namespace
