// SPDX-License-Identifier: GPL-2.0
// What the host build records for each list: the lock that guards it. Nothing of this exists in the kernel build.
//
// The lock is not declared, but found from the uses: at each use by a task, the set of candidates is reduced to the locks
// that the task holds; an empty set means that two users did not exclude each other. So a list that is added later is
// checked, too, and an element that is unlinked under the lock of another list is found at once.
#pragma once

#include <hawser/base.h>

namespace hw {

#ifdef __KERNEL__

class ListWatch {
public:
    void read(const char*) const {}
    void changed(const char*) const {}
    void unshare() {}
};

template <class Tag> class Membership {
public:
    static constexpr bool is_known = false;
    void join(const ListWatch&) {}
    void leave(const char*) {}
    void expect(const ListWatch&, const char*) const {}
};

#else

class ListWatch : Pinned {
public:
    // The running task looks at the list, or changes it; `list` names it in the report.
    void read(const char* list) const { used("read", list); }
    void changed(const char* list) const { used("changed", list); }
    // Its object dies: no other context uses it any more, and it needs no lock.
    void unshare()
    {
        user_ = 0;
        shared_ = false;
    }

private:
    static constexpr unsigned max_guards = 8; // locks that one task holds at once
    void used(const char* how, const char* list) const; // kapi/sim/list_watch.cc

    mutable const void* guards_[max_guards] = {}; // held at each use under a lock so far
    mutable const char* guard_name_ = nullptr;    // of the first of them; null: not used under a lock yet
    mutable u32 user_ = 0;                        // the first task that used it; 0: none yet
    mutable bool shared_ = false;                 // another task did, too
};

// Which list an element is on. The list that a caller names must be that one.
template <class Tag> class Membership {
public:
    static constexpr bool is_known = true;
    void join(const ListWatch& list) { list_ = &list; }
    void leave(const char* list)
    {
        list_->changed(list);
        list_ = nullptr;
    }
    void expect(const ListWatch& list, const char* name) const
    {
        if (list_ != &list)
            kapi_bug(name, "an element is looked for on a list that it is not on:", 0);
    }

private:
    const ListWatch* list_ = nullptr;
};

#endif

} // namespace hw
