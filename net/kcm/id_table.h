// SPDX-License-Identifier: GPL-2.0
// A table of objects that belong to connections, by the connection's id.
//
// Programs choose ids to some degree: they are numbers in order, and a program that attaches and unattaches skips those
// that it does not want. So the buckets are seeded, and there are enough to keep them short with the largest number of
// connections of a multiplexor.
#pragma once

#include <hawser/hash_table.h>
#include <hawser/list.h>
#include <hawser/memory.h>

namespace kcm {

using namespace hw;

// T has id_in_table().
template <class T, class Tag> class IdTable : Pinned {
public:
    // Sleeps. ENOMEM.
    static Result<Own<IdTable>> create()
    {
        Own<IdTable> table(make<IdTable>(Alloc::charged));
        if (!table)
            return fail(KAPI_ENOMEM);
        return table;
    }

    // The rest is under the lock of the table's owner.
    void insert(Ref<T> item) { bucket_of(item->id_in_table()).push_back(std::move(item)); }
    Ref<T> remove(T& item) { return bucket_of(item.id_in_table()).remove(item); }
    // Null: there is none. Some 64 steps at the most: 65536 connections in 1024 buckets.
    T* find(u64 id)
    {
        RefList<T, Tag>& bucket = bucket_of(id);
        T* item = bucket.front();
        while (item && item->id_in_table() != id)
            item = bucket.next(*item);
        return item;
    }

private:
    HW_MADE_BY_CREATE;
    IdTable() = default;
    ~IdTable() = default;
    RefList<T, Tag>& bucket_of(u64 id) { return buckets_[seed_.hash_of({&id, 1}) % bucket_count]; }

    static constexpr unsigned bucket_count = 1024;
    const HashSeed seed_;
    RefList<T, Tag> buckets_[bucket_count];
};

} // namespace kcm
