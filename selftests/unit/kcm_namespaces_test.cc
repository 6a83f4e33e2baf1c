// SPDX-License-Identifier: GPL-2.0
// Whose share it is when programs are in user namespaces.
#include <kapi/share.h>

#include "kcm_test.h"

namespace {

using Users = std::vector<unsigned>; // makers of namespaces, from the innermost to the outermost

class KcmNamespaces : public KcmTest {
protected:
    /** For whom a program runs that is this user, by the host's number, in namespaces of these makers. */
    kapi_u64 user_of(unsigned user, const Users &makers)
    {
        kapi_u64 found = 0;
        run(a, [&] {
            sim::World::current_task()->user = user;
            sim::World::current_task()->makers = makers;
            found = kapi_user();
        });
        return found;
    }
};

TEST_F(KcmNamespaces, user__is_himself_in_what_the_administrator_made)
{
    EXPECT_EQ(user_of(1000, {}), 1000u);
    EXPECT_EQ(user_of(1000, {0}), 1000u);
    EXPECT_EQ(user_of(100'005, {0, 0}), 100'005u);
    EXPECT_EQ(user_of(0, {0}), 0u);
}

TEST_F(KcmNamespaces, user__is_the_outermost_maker_of_a_namespace_who_is_not_the_administrator)
{
    EXPECT_EQ(user_of(165'000, {1000}), 1000u);       // one of his subordinate numbers
    EXPECT_EQ(user_of(165'000, {165'000, 1000}), 1000u);
    EXPECT_EQ(user_of(100'005, {100'004, 0}), 100'004u); // in a container of the administrator's
    EXPECT_EQ(user_of(100'005, {0, 100'004, 0}), 100'004u);
}

TEST_F(KcmNamespaces, users_of_an_administrators_namespace__have_queues_of_their_own)
{
    unsigned before = a.live_queues;
    for (unsigned user : {100'001u, 100'002u, 100'003u}) {
        KcmSocket &socket = new_socket();
        run(a, [&] {
            sim::World::current_task()->user = user;
            sim::World::current_task()->makers = {0};
            ASSERT_EQ(socket.open(), 0);
        });
    }
    EXPECT_EQ(a.live_queues, before + 3);
}

} // namespace
