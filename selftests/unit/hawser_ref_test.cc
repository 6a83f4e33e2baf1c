// SPDX-License-Identifier: GPL-2.0
// include/hawser/ref.h and list.h: shared ownership, and lists whose membership is ownership.
#include "kapi_sim_test.h"

#include <hawser/list.h>
#include <hawser/lock.h>

#include <vector>

namespace {

struct ByAge;
struct ByName;

struct Item : hw::RefCounted<Item>, hw::ListNode<ByAge>, hw::ListNode<ByName> {
    explicit Item(int number) : number(number) { alive++; }
    ~Item() { alive--; }
    static void destroy(Item *item) { hw::dispose(item); }
    static hw::Ref<Item> create(int number) { return hw::Ref<Item>::adopt(hw::make<Item>(hw::Alloc::atomic, number)); }
    int number;
    static inline int alive = 0;
};

using List = hw::RefList<Item, ByAge>;

std::vector<int> numbers(const List &list)
{
    std::vector<int> result;
    for (Item *item = list.front(); item; item = list.next(*item))
        result.push_back(item->number);
    return result;
}

TEST(Ref, count__last_reference_destroys)
{
    {
        hw::Ref<Item> first = Item::create(1);
        hw::Ref<Item> second = first;
        hw::Ref<Item> third = hw::Ref<Item>::share(*first);
        first = nullptr;
        EXPECT_EQ(Item::alive, 1);
        second = std::move(third);
        EXPECT_FALSE(third);
        EXPECT_EQ(Item::alive, 1);
        Item *raw = second.leak();
        EXPECT_EQ(Item::alive, 1);
        second = hw::Ref<Item>::adopt(raw);
    }
    EXPECT_EQ(Item::alive, 0);
}

TEST(Ref, self_assignment__keeps)
{
    hw::Ref<Item> item = Item::create(1);
    hw::Ref<Item> &alias = item;
    item = alias;
    EXPECT_EQ(Item::alive, 1);
}

struct Lasting : hw::RefCounted<Lasting> {
    static void destroy(Lasting *) { dead++; }
    static inline int dead = 0;
};

TEST(Ref, upgrade__refuses_the_dead)
{
    Lasting::dead = 0;
    Lasting object;
    {
        hw::Ref<Lasting> again = hw::Ref<Lasting>::upgrade(object);
        EXPECT_TRUE(again);
    }
    object.unref();
    EXPECT_EQ(Lasting::dead, 1);
    EXPECT_FALSE(hw::Ref<Lasting>::upgrade(object));
    EXPECT_DEATH(object.ref(), "old != 0");
}

TEST_F(SimTest, ref__races_of_last_put_and_upgrade_destroy_once)
{
    for (int round = 0; round < 50; round++) {
        static Lasting *object;
        Lasting storage;
        object = &storage;
        Lasting::dead = 0;
        for (int i = 0; i < 3; i++)
            world.spawn(a, "upgrader", [] { hw::Ref<Lasting> mine = hw::Ref<Lasting>::upgrade(*object); });
        world.spawn(a, "owner", [] { object->unref(); });
        world.run_idle();
        EXPECT_EQ(Lasting::dead, 1);
    }
}

TEST(List, order__and_membership_holds_a_reference)
{
    List list;
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.front(), nullptr);
    for (int i = 1; i <= 3; i++)
        list.push_back(Item::create(i));
    list.push_front(Item::create(0));
    EXPECT_EQ(numbers(list), (std::vector{0, 1, 2, 3}));
    EXPECT_EQ(Item::alive, 4);
    hw::Ref<Item> second = list.remove(*list.next(*list.front()));
    EXPECT_EQ(second->number, 1);
    EXPECT_FALSE(static_cast<hw::ListNode<ByAge> &>(*second).linked());
    EXPECT_EQ(numbers(list), (std::vector{0, 2, 3}));
    EXPECT_EQ(list.pop_front()->number, 0);
    list.clear();
    EXPECT_EQ(Item::alive, 1);
    EXPECT_FALSE(list.pop_front());
}

TEST(List, splice__keeps_the_order)
{
    List first, second;
    first.push_back(Item::create(3));
    second.push_back(Item::create(1));
    second.push_back(Item::create(2));
    first.splice_front(second);
    EXPECT_TRUE(second.empty());
    EXPECT_EQ(numbers(first), (std::vector{1, 2, 3}));
    first.splice_front(second);
    EXPECT_EQ(numbers(first), (std::vector{1, 2, 3}));
    second.splice_front(first);
    EXPECT_EQ(numbers(second), (std::vector{1, 2, 3}));
    second.clear();
}

TEST(List, backwards__the_newest_first)
{
    List list;
    EXPECT_EQ(list.back(), nullptr);
    for (int number : {1, 2, 3})
        list.push_back(Item::create(number));
    std::vector<int> seen;
    for (Item *item = list.back(); item; item = list.previous(*item))
        seen.push_back(item->number);
    EXPECT_EQ(seen, (std::vector{3, 2, 1}));
    list.clear();
}

TEST(List, two_lists__one_object)
{
    List by_age;
    hw::RefList<Item, ByName> by_name;
    hw::Ref<Item> item = Item::create(1);
    by_age.push_back(item);
    by_name.push_back(item);
    by_age.clear();
    EXPECT_EQ(by_name.front(), item.get());
    by_name.clear();
}

TEST(List, mistakes__are_caught)
{
    List list;
    hw::Ref<Item> item = Item::create(1);
    list.push_back(item);
    EXPECT_DEATH(list.push_back(item), "linked");
    EXPECT_DEATH(list.~RefList(), "empty");
    list.clear();
}

struct OneLock {
    static constexpr const char *name = "one";
    static constexpr unsigned rank = 10;
};
struct OtherLock {
    static constexpr const char *name = "other";
    static constexpr unsigned rank = 20;
};

/** Two queues with a lock each, as two paths of a connection have, and one item. */
struct Queues {
    hw::Spin<OneLock> lock;
    hw::Spin<OtherLock> other_lock;
    List list, other_list;
    hw::Ref<Item> item = Item::create(1);

    void link()
    {
        hw::Guard guard(lock);
        list.push_back(item);
    }
    void unlink()
    {
        hw::Guard guard(lock);
        (void)list.remove(*item);
    }
};

class ListWatch : public SimTest {
protected:
    void run(std::function<void()> body) { SimTest::run(a, std::move(body)); }
    Queues queues;
};

TEST_F(ListWatch, one_lock_from_any_task)
{
    run([&] { queues.link(); });
    run([&] { queues.unlink(); });
}

TEST_F(ListWatch, bites__unlinked_under_the_lock_of_another_list)
{
    run([&] { queues.link(); });
    EXPECT_DEATH(run([&] {
                     hw::Guard guard(queues.other_lock);
                     (void)queues.other_list.remove(*queues.item);
                 }),
                 "changed under other, which does not guard it: it was used under another lock .one. before");
    run([&] { queues.unlink(); });
}

TEST_F(ListWatch, bites__without_a_lock)
{
    run([&] { queues.link(); });
    EXPECT_DEATH(run([&] { (void)queues.list.remove(*queues.item); }), "changed without a lock: it was used under one");
    EXPECT_DEATH(run([&] { (void)queues.list.front(); }), "read without a lock");
    run([&] { queues.unlink(); });
}

TEST_F(ListWatch, bites__walked_from_an_element_of_another_list)
{
    run([&] { queues.link(); });
    EXPECT_DEATH(run([&] {
                     hw::Guard guard(queues.lock);
                     (void)queues.other_list.next(*queues.item);
                 }),
                 "on a list that it is not on");
    run([&] { queues.unlink(); });
}

TEST_F(ListWatch, splice__moves_membership)
{
    run([&] {
        queues.link();
        List own; // on the stack of its user: it needs no lock
        {
            hw::Guard guard(queues.lock);
            own.splice_front(queues.list);
        }
        EXPECT_EQ(own.next(*queues.item), nullptr);
        own.clear();
    });
}

TEST_F(ListWatch, longest_section__is_counted)
{
    constexpr unsigned kItems = 100;
    sim::forget_steps();
    run([&] {
        hw::Guard guard(queues.lock);
        for (unsigned i = 0; i < kItems; i++)
            queues.list.push_back(Item::create(static_cast<int>(i)));
    });
    EXPECT_GE(sim::most_steps_under("one"), kItems);
    sim::forget_steps();
    run([&] {
        hw::Guard guard(queues.lock);
        (void)queues.list.front();
    });
    EXPECT_LE(sim::most_steps_under("one"), 3u);
    run([&] {
        List own;
        {
            hw::Guard guard(queues.lock);
            own.splice_front(queues.list);
        }
        own.clear();
    });
}

} // namespace
