// SPDX-License-Identifier: GPL-2.0
// What other threads of the program call while bind() looks for the address.
#include "rds_noting_test.h"

#include <kapi/errno.h>

namespace {

class Bind : public SimTest {
protected:
    Bind()
    {
        Noted::present = &noted_;
        transport_.check_local = [](kapi_net *, const kapi_addr *) { return meanwhile(); };
        run(a, [&] {
            ASSERT_EQ(host_.load_rds(), 0);
            ASSERT_EQ(rds_transport_register(&transport_), 0);
            ASSERT_EQ(socket_.open(), 0);
        });
    }
    ~Bind() override
    {
        meanwhile = [] { return 0; };
        run(a, [&] {
            socket_.close();
            rds_transport_unregister(&transport_);
            rds_transport_leave_net(&transport_, &a.initial_net());
            EXPECT_TRUE(host_.unload_soon());
        });
    }
    int connect(kapi_u32 link) { return socket_.connect(sim::address("fe80::9", 5, link)); }
    int bind(kapi_u32 link) { return socket_.bind(sim::address("fe80::1", 6, link)); }

    static inline std::function<int()> meanwhile = [] { return 0; }; // whether the transport has the address
    Noted noted_;
    rds_transport transport_ = noting_transport();
    RdsHost host_{a};
    RdsSocket socket_{host_};
};

TEST_F(Bind, connect_meanwhile__is_to_the_same_link)
{
    run(a, [&] {
        int other = 0, same = -1;
        meanwhile = [&] {
            other = connect(3);
            same = connect(2);
            return 0;
        };
        EXPECT_EQ(bind(2), 0);
        EXPECT_EQ(other, -KAPI_EINVAL);
        EXPECT_EQ(same, 0);
        EXPECT_EQ(connect(3), -KAPI_EINVAL);
    });
}

TEST_F(Bind, connect_after_a_failure__is_to_any_link)
{
    run(a, [&] {
        meanwhile = [] { return -KAPI_EADDRNOTAVAIL; };
        EXPECT_EQ(bind(2), -KAPI_EADDRNOTAVAIL);
        EXPECT_EQ(connect(3), 0);
    });
}

} // namespace
