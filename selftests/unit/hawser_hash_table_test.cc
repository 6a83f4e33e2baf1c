// SPDX-License-Identifier: GPL-2.0
#include <hawser/hash_table.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

using namespace hw;

namespace {

struct TestLock {
    static constexpr const char *name = "hash table test";
    static constexpr unsigned rank = 10;
};

struct Item : HashNode<Item> {
    explicit Item(u64 k) : key(k) {}
    bool ref_unless_dead() const { return !dying && ++references; }
    void ref() const { references++; }
    void unref() const { references--; }
    u64 key;
    bool dying = false;
    mutable int references = 1;
};

template <unsigned Shards> struct Fixture {
    using Table = HashTable<Item, Item, TestLock, Shards>;
    typename Table::Insert insert(Item &item, Ref<Item> *found = nullptr)
    {
        Ref<Item> there;
        auto outcome = table.insert(hash(item.key), item, Alloc::sleep, [&](const Item &i) { return i.key == item.key; },
                                    [&] { return open; }, there);
        if (found)
            *found = there;
        return outcome;
    }
    u32 hash(u64 key) { return hash_bits ? static_cast<u32>(key) & hash_bits : table.hash_of(std::array{key}); }
    Ref<Item> find(u64 key)
    {
        return table.find(hash(key), [&](const Item &i) { return i.key == key; });
    }
    void fill(u64 count, u64 first = 0)
    {
        for (u64 i = 0; i < count; i++) {
            items.push_back(std::make_unique<Item>(first + i));
            ASSERT_EQ(insert(*items.back()), Table::Insert::done);
        }
    }
    ~Fixture()
    {
        for (auto &item : items) {
            EXPECT_EQ(item->references, 1);
            table.remove(*item);
        }
    }
    std::vector<std::unique_ptr<Item>> items;
    Table table;
    bool open = true;
    u32 hash_bits = 0; // not 0: bad hashes, of so many bits of the key
};

TEST(HashTable, item__is_found_until_it_is_removed)
{
    Fixture<4> f;
    f.fill(1000);
    EXPECT_EQ(f.table.size(), 1000u);
    for (u64 i = 0; i < 1000; i++) {
        ASSERT_TRUE(f.find(i));
        EXPECT_EQ(f.find(i)->key, i);
    }
    EXPECT_FALSE(f.find(1000));
    EXPECT_TRUE(f.table.remove(*f.items[7]));
    EXPECT_FALSE(f.table.remove(*f.items[7]));
    EXPECT_FALSE(f.find(7));
    EXPECT_EQ(f.table.size(), 999u);
    EXPECT_EQ(f.insert(*f.items[7]), decltype(f.table)::Insert::done);
    EXPECT_TRUE(f.find(7));
}

TEST(HashTable, insert__finds_an_equal_one)
{
    Fixture<1> f;
    f.fill(100);
    Item twin(42);
    Ref<Item> found;
    EXPECT_EQ(f.insert(twin, &found), decltype(f.table)::Insert::exists);
    EXPECT_EQ(found.get(), f.items[42].get());
    f.open = false;
    Item late(1000);
    EXPECT_EQ(f.insert(late), decltype(f.table)::Insert::refused);
    EXPECT_EQ(f.table.size(), 100u);
}

TEST(HashTable, dying_item__is_not_found_and_makes_place)
{
    Fixture<1> f;
    f.fill(3);
    f.items[1]->dying = true;
    EXPECT_FALSE(f.find(1));
    Item next(1);
    EXPECT_EQ(f.insert(next), decltype(f.table)::Insert::done);
    EXPECT_EQ(f.find(1).get(), &next);
    f.table.remove(*f.items[1]);
    EXPECT_EQ(f.find(1).get(), &next);
    f.table.remove(next);
}

template <unsigned Shards> std::map<u64, int> walk(Fixture<Shards> &f)
{
    std::map<u64, int> seen;
    f.table.for_each([&](Item &item) { seen[item.key]++; });
    return seen;
}

TEST(HashTable, walk__sees_each_once)
{
    for (u64 size : {0u, 1u, 2u, 15u, 16u, 17u, 500u, 5000u}) {
        Fixture<3> f;
        f.fill(size);
        auto seen = walk(f);
        EXPECT_EQ(seen.size(), size);
        EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](auto &s) { return s.second == 1; })) << size;
    }
}

TEST(HashTable, walk__sees_each_once_where_hashes_are_bad)
{
    Fixture<1> f;
    f.hash_bits = 0x07000000; // of the keys below: all have one of 8 hashes
    for (u64 i = 0; i < 100; i++) {
        f.items.push_back(std::make_unique<Item>(i << 24 | i << 32));
        f.insert(*f.items.back());
    }
    EXPECT_EQ(walk(f).size(), 100u);
}

// Whether it is the one that was just met that goes, or one that was met before.
TEST(HashTable, walk__misses_none_when_one_of_equal_hash_is_removed)
{
    for (std::size_t behind : {0u, 1u, 3u}) {
        Fixture<1> f;
        f.hash_bits = 0x01000000;
        for (u64 i = 0; i < 100; i++) {
            f.items.push_back(std::make_unique<Item>(i << 24 | i << 32));
            f.insert(*f.items.back());
        }
        std::vector<Item *> met;
        f.table.for_each([&](Item &item) {
            met.push_back(&item);
            if (met.size() > behind)
                f.table.remove(*met[met.size() - 1 - behind]);
        });
        EXPECT_EQ(met.size(), 100u) << behind;
        EXPECT_EQ(std::set<Item *>(met.begin(), met.end()).size(), 100u);
        EXPECT_EQ(f.table.size(), behind);
    }
}

TEST(HashTable, walk__is_not_disturbed_by_growth_and_removal)
{
    Fixture<2> f;
    f.fill(300);
    std::map<u64, int> seen;
    u64 fresh = 1000;
    f.table.for_each([&](Item &item) {
        seen[item.key]++;
        if (item.key < 300 && item.key % 3 == 0)
            f.table.remove(item);
        if (fresh < 4000)
            f.fill(20, fresh), fresh += 20;
    });
    for (u64 i = 0; i < 300; i++)
        EXPECT_EQ(seen[i], 1) << i;
    for (auto &[key, times] : seen)
        EXPECT_EQ(times, 1) << key;
}

TEST(HashTable, walk__may_take_a_while_with_no_lock_held)
{
    Fixture<1> f;
    f.fill(50);
    f.table.for_each([&](Item &item) { EXPECT_TRUE(f.find(item.key)); }); // would wait for itself
}

// As a user chooses them who binds sockets to 127/8.
std::vector<u32> hashes_of_addresses(const HashSeed &seed)
{
    std::vector<u32> hashes;
    for (u64 i = 0; i < 4096; i++)
        hashes.push_back(seed.hash_of(std::array{u64{0}, 0x0000007fffff0000 | i << 32, i}));
    return hashes;
}

TEST(HashSeed, hashes__spread_over_high_and_low_bits)
{
    for (int round = 0; round < 8; round++) {
        HashSeed seed;
        std::map<u32, int> high, low;
        for (u32 hash : hashes_of_addresses(seed))
            high[hash >> 20]++, low[hash % 64]++;
        for (auto &[bucket, size] : high)
            EXPECT_LT(size, 16);
        for (auto &[shard, size] : low)
            EXPECT_LT(size, 160);
        EXPECT_EQ(low.size(), 64u);
    }
}

TEST(HashSeed, hashes__of_two_seeds_have_nothing_in_common)
{
    HashSeed first, second;
    auto a = hashes_of_addresses(first), b = hashes_of_addresses(second);
    std::set<u32> met;
    int together = 0; // pairs that meet in a bucket of the first, and in the second too
    for (std::size_t i = 0; i + 1 < a.size(); i++)
        for (std::size_t j = i + 1; j < std::min(a.size(), i + 64); j++)
            together += a[i] >> 20 == a[j] >> 20 && b[i] >> 20 == b[j] >> 20;
    EXPECT_LT(together, 3);
    EXPECT_NE(a, b);
}

} // namespace
