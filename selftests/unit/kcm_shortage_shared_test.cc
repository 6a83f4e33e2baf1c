// SPDX-License-Identifier: GPL-2.0
// Connections of many users that wait for memory: each user's are judged apart from all others', whose works' queue they share.
#include "kcm_shortage_test.h"

#include "net/kcm/users.h"

namespace {

class KcmShortageShared : public KcmShortage {
protected:
    static constexpr unsigned kOwnQueues = kcm::Users::own_queues, kVictims = 4;

    void as(unsigned user, const std::function<void()> &body)
    {
        run(a, [&] {
            sim::World::current_task()->user = user;
            body();
        });
    }
    KcmSocket &open_as(unsigned user)
    {
        KcmSocket &socket = new_socket();
        as(user, [&] { ASSERT_EQ(socket.open(), 0); });
        return socket;
    }
    Ends attach_as(unsigned user, KcmSocket &socket)
    {
        Ends ends = connect();
        as(user, [&] { ASSERT_EQ(socket.attach(ends.here, by_length), 0); });
        return ends;
    }
    /** From here on the users share queues. */
    void fill_own_queues()
    {
        for (unsigned user = 1; user <= kOwnQueues; user++)
            open_as(user);
    }
    struct Victim {
        KcmSocket *socket;
        std::vector<Ends> parts; // connections with a part of a message each
    };
    std::vector<Victim> start_victims(unsigned first_user, const std::string &begin)
    {
        std::vector<Victim> victims;
        for (unsigned i = 0; i < kVictims; i++) {
            Victim &victim = victims.emplace_back(Victim{&open_as(first_user + i), {}});
            for (unsigned j = 0; j < 2; j++)
                start_to_write(victim.parts.emplace_back(attach_as(first_user + i, *victim.socket)), begin);
        }
        settle();
        return victims;
    }
    /** All memory is taken when the rest of each comes. */
    void starve(const std::vector<Victim> &victims, const std::string &rest)
    {
        a.kept_limit = a.kept;
        for (const Victim &victim : victims)
            for (const Ends &ends : victim.parts)
                start_to_write(ends, rest);
    }
    unsigned ended(const Victim &victim)
    {
        unsigned count = 0;
        for (const Ends &ends : victim.parts)
            count += error_of(ends) == 12; // ENOMEM
        return count;
    }
};

// Nobody reads the messages of the others, so their memory does not come back.
TEST_F(KcmShortageShared, others_unread)
{
    constexpr unsigned kOthers = 64, kFirst = kOwnQueues + 1;
    const std::string message = framed(text(60'000)), unread = framed(text(30'000));
    fill_own_queues();
    for (unsigned i = 0; i < kOthers; i++)
        peer_writes(attach_as(kFirst + i, open_as(kFirst + i)), unread);
    auto victims = start_victims(kFirst + kOthers, message.substr(0, 40'000));
    starve(victims, message.substr(40'000));
    world.run_for(3 * sim::kSecond);
    for (const Victim &victim : victims)
        EXPECT_EQ(ended(victim), 1u);
    a.kept_limit = ~std::size_t{0};
    settle();
    for (const Victim &victim : victims)
        EXPECT_TRUE(receive(*victim.socket) == message);
}

// A look is at some only, and one at others' is none at one's own. What the others give back may be enough for a victim, too:
// then none of its own has to end.
TEST_F(KcmShortageShared, others_wait)
{
    constexpr unsigned kOthers = 64, kEach = 4, kFirst = kOwnQueues + 1;
    const std::string message = framed(text(60'000)), larger = framed(text(200'000));
    fill_own_queues();
    std::vector<Ends> crowd;
    for (unsigned i = 0; i < kOthers; i++) {
        KcmSocket &socket = open_as(kFirst + i);
        for (unsigned j = 0; j < kEach; j++)
            start_to_write(crowd.emplace_back(attach_as(kFirst + i, socket)), larger.substr(0, 45'000));
    }
    auto victims = start_victims(kFirst + kOthers, message.substr(0, 40'000));
    for (const Ends &ends : crowd)
        EXPECT_EQ(error_of(ends), 0);
    a.kept_limit = a.kept;
    for (const Ends &ends : crowd)
        start_to_write(ends, larger.substr(45'000, 1000));
    starve(victims, message.substr(40'000));
    world.run_for(1300 * sim::kMillisecond);
    for (const Victim &victim : victims)
        EXPECT_TRUE(ended(victim) || receive(*victim.socket) == message);
    a.kept_limit = ~std::size_t{0};
    settle();
}

} // namespace
