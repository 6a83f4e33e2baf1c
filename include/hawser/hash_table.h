// SPDX-License-Identifier: GPL-2.0
// A hash table of intrusive nodes: seeded, so that users and peers cannot choose keys that meet in one bucket, growing with its
// size, and split into shards with a lock each.
//
// The table holds no reference: an item in the table has references, or has lost the last one and removes itself; then find()
// does not return it any more. An item's hash comes from hash_of() of its key. In a shard the buckets are in the order of the
// hash's high bits and each bucket is sorted, by hash and address, so a walk continues where it stopped, whatever was added,
// removed or moved to a larger array meanwhile.
#pragma once

#include <hawser/lock.h>
#include <hawser/ref.h>

#include <span>

namespace hw {

// SipHash-1-3 of some words under a secret of 128 bits.
class HashSeed {
public:
    HashSeed() : key_{random(), random()} {}
    u32 hash_of(std::span<const u64> words) const
    {
        u64 v[4] = {key_[0] ^ 0x736f6d6570736575, key_[1] ^ 0x646f72616e646f6d, key_[0] ^ 0x6c7967656e657261,
                    key_[1] ^ 0x7465646279746573};
        for (u64 word : words)
            mix(v, word, 1);
        mix(v, words.size() << 56, 1);
        v[2] ^= 0xff;
        mix(v, 0, 3);
        u64 all = v[0] ^ v[1] ^ v[2] ^ v[3];
        return static_cast<u32>(all ^ all >> 32);
    }

private:
    static u64 random() { return static_cast<u64>(kapi_random_u32()) << 32 | kapi_random_u32(); }
    static u64 rotate(u64 x, int by) { return x << by | x >> (64 - by); }
    static void mix(u64 (&v)[4], u64 word, int rounds)
    {
        v[3] ^= word;
        for (int i = 0; i < rounds; i++) {
            v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
            v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
            v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
            v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
        }
        v[0] ^= word;
    }

    u64 key_[2];
};

template <class Tag> class HashNode {
public:
    HashNode() = default;
    HashNode(const HashNode&) = delete;
    HashNode& operator=(const HashNode&) = delete;

private:
    template <class, class, class, unsigned> friend class HashTable;
    HashNode* next_ = nullptr;
    u32 hash_ = 0;
    bool entered_ = false; // the shard's lock
};

// Where a walk over a table has come to.
struct HashCursor {
    unsigned shard = 0;
    u64 hash = 0; // the next item has a larger one, or the same
    u64 address = 0; // and a larger address
};

// T derives from HashNode<Tag> and has ref_unless_dead(). Class is the class of the shards' locks.
template <class T, class Tag, class Class, unsigned Shards> class HashTable : Pinned {
    using Node = HashNode<Tag>;

public:
    ~HashTable()
    {
        HW_ASSERT(size() == 0);
        for (Shard& shard : shards_)
            kapi_free(static_cast<void*>(shard.array));
    }

    u32 hash_of(std::span<const u64> words) const { return seed_.hash_of(words); }
    u32 size() const { return size_.load_relaxed(); }

    // Any context. The item with this hash for which match(const T&) holds, or null.
    template <class Match> Ref<T> find(u32 hash, Match&& match)
    {
        Shard& shard = shard_of(hash);
        Guard guard(shard.lock);
        return find_in(shard, hash, match);
    }

    enum class Insert { done, refused, exists };
    // Enters item unless may() is false or there is one already, which found then is. May be called in a context that mode
    // allows to allocate in; when there is no memory to grow the table is only slower.
    template <class Match, class May> Insert insert(u32 hash, T& item, Alloc mode, Match&& match, May&& may, Ref<T>& found)
    {
        Shard& shard = shard_of(hash);
        unsigned bits;
        {
            Guard guard(shard.lock);
            if (!may())
                return Insert::refused;
            found = find_in(shard, hash, match);
            if (found)
                return Insert::exists;
            Node& node = item;
            HW_ASSERT(!node.entered_);
            node.hash_ = hash;
            node.entered_ = true;
            enter(bucket(shard, hash), node);
            bits = ++shard.size > u32{1} << shard.bits ? shard.bits + 1 : 0;
        }
        size_.fetch_add(1);
        if (bits)
            grow(shard, bits, mode);
        return Insert::done;
    }

    // Any context. False when another caller took it out before.
    bool remove(T& item)
    {
        return remove_if(item, [] { return true; });
    }
    // Any context. The same if condition() holds, during which the item cannot be found.
    template <class Condition> bool remove_if(T& item, Condition&& condition)
    {
        Node& node = item;
        Shard& shard = shard_of(node.hash_);
        {
            Guard guard(shard.lock);
            if (!node.entered_ || !condition())
                return false;
            Node** at = &bucket(shard, node.hash_);
            while (*at != &node)
                at = &(*at)->next_;
            *at = node.next_;
            node.entered_ = false;
            shard.size--;
        }
        size_.fetch_sub(1);
        return true;
    }

    // A walk. It meets each item that is there from its beginning to its end, maybe others too.
    using Cursor = HashCursor;
    // Any context. The next item, or null at the end. No lock is held when it returns, and for a few buckets at a time meanwhile.
    Ref<T> next(Cursor& cursor)
    {
        while (cursor.shard < Shards) {
            if (Ref<T> item = next_in(shards_[cursor.shard], cursor))
                return item;
            if (cursor.hash > ~u32{0})
                cursor = {cursor.shard + 1};
        }
        return {};
    }
    // Calls visit(T&) for each item of a walk, under no lock.
    template <class Visit> void for_each(Visit&& visit)
    {
        Cursor cursor;
        while (Ref<T> item = next(cursor))
            visit(*item);
    }

private:
    static constexpr unsigned piece_buckets = 256;
    static constexpr unsigned max_bits = 20;

    struct Shard {
        Spin<Class> lock;
        Node** array HW_GUARDED_BY(lock) = nullptr; // null: one bucket, which is single
        Node* single HW_GUARDED_BY(lock) = nullptr;
        unsigned bits HW_GUARDED_BY(lock) = 0;
        u32 size HW_GUARDED_BY(lock) = 0;
    };
    // The low bits choose the shard, the high bits the bucket.
    Shard& shard_of(u32 hash) { return shards_[hash % Shards]; }
    static u32 index(u32 hash, unsigned bits) { return static_cast<u32>(static_cast<u64>(hash) << bits >> 32); }
    static Node*& bucket(Shard& shard, u32 hash) HW_REQUIRES(shard.lock)
    {
        return shard.array ? shard.array[index(hash, shard.bits)] : shard.single;
    }
    static u64 address_of(const Node& node) { return reinterpret_cast<usize>(&node); }
    static bool is_behind(const Node& node, u64 hash, u64 address)
    {
        return node.hash_ > hash || (node.hash_ == hash && address_of(node) > address);
    }
    static void enter(Node*& list, Node& node)
    {
        Node** at = &list;
        while (*at && is_behind(node, (*at)->hash_, address_of(**at)))
            at = &(*at)->next_;
        node.next_ = *at;
        *at = &node;
    }
    template <class Match> static Ref<T> find_in(Shard& shard, u32 hash, Match& match) HW_REQUIRES(shard.lock)
    {
        for (Node* n = bucket(shard, hash); n && n->hash_ <= hash; n = n->next_) {
            T& item = static_cast<T&>(*n);
            if (n->hash_ == hash && match(item))
                if (Ref<T> alive = Ref<T>::upgrade(item))
                    return alive;
        }
        return {};
    }

    void grow(Shard& shard, unsigned bits, Alloc mode)
    {
        if (bits > max_bits)
            return;
        auto** larger = static_cast<Node**>(kapi_zalloc(sizeof(Node*) << bits, static_cast<kapi_alloc_mode>(mode)));
        if (!larger)
            return;
        Node** old = nullptr;
        {
            Guard guard(shard.lock);
            if (shard.bits + 1 != bits) {
                old = larger; // another thread was faster
            } else {
                for (u32 i = 0; i < u32{1} << shard.bits; i++) {
                    Node* next;
                    for (Node* n = shard.array ? shard.array[i] : shard.single; n; n = next) {
                        next = n->next_;
                        enter(larger[index(n->hash_, bits)], *n);
                    }
                }
                old = std::exchange(shard.array, larger);
                shard.single = nullptr;
                shard.bits = bits;
            }
        }
        kapi_free(static_cast<void*>(old));
    }

    // Null, and the cursor at the place to continue, above all hashes at the end.
    Ref<T> next_in(Shard& shard, Cursor& cursor)
    {
        Guard guard(shard.lock);
        u32 i = index(static_cast<u32>(cursor.hash), shard.bits);
        for (unsigned looked = 0; i < u32{1} << shard.bits; i++, looked++) {
            if (looked == piece_buckets) {
                cursor = {cursor.shard, static_cast<u64>(i) << (32 - shard.bits)};
                return {};
            }
            for (Node* n = shard.array ? shard.array[i] : shard.single; n; n = n->next_) {
                if (!is_behind(*n, cursor.hash, cursor.address))
                    continue;
                cursor = {cursor.shard, n->hash_, address_of(*n)};
                if (Ref<T> alive = Ref<T>::upgrade(static_cast<T&>(*n)))
                    return alive;
            }
        }
        cursor.hash = u64{1} << 32;
        return {};
    }

    const HashSeed seed_;
    Atomic<u32> size_{0};
    Shard shards_[Shards];
};

} // namespace hw
