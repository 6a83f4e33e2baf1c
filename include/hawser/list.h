// SPDX-License-Identifier: GPL-2.0
// Intrusive doubly linked lists whose membership holds a reference.
//
// An object derives from ListNode<Tag> once for each kind of list it can be on.
#pragma once

#include <hawser/list_watch.h>
#include <hawser/ref.h>
#include <hawser/steps.h>

namespace hw {

template <class Tag> class ListNode {
public:
    ListNode() = default;
    ListNode(const ListNode&) = delete;
    ListNode& operator=(const ListNode&) = delete;
    bool linked() const { return next_ != nullptr; }

private:
    template <class, class> friend class RefList;
    ListNode* next_ = nullptr;
    ListNode* prev_ = nullptr;
    [[no_unique_address]] Membership<Tag> membership_;
};

// T derives from ListNode<Tag> and from RefCounted<T>.
template <class T, class Tag> class RefList : Pinned {
    using Node = ListNode<Tag>;

public:
    RefList() { clear_links(); }
    // Members that are left may be in use: they are not freed, and belong to no list any more.
    ~RefList()
    {
        if (HW_ASSERT(empty()))
            return;
        for (Node* node = head_.next_; node != &head_;)
            node->prev_ = nullptr, node = std::exchange(node->next_, nullptr);
    }

    bool empty() const { return head_.next_ == &head_; }
    T* front() const { return watch_.read(name()), to(head_.next_); }
    T* next(const T& item) const { return expect(item), to(node(item).next_); }
    T* back() const { return watch_.read(name()), to(head_.prev_); }
    T* previous(const T& item) const { return expect(item), to(node(item).prev_); }

    void push_back(Ref<T> item) { insert_before(head_, item.leak()); }
    void push_front(Ref<T> item) { insert_before(*head_.next_, item.leak()); }
    void insert_before(T& place, Ref<T> item) { expect(place), insert_before(node(place), item.leak()); }
    // Takes item, which is on this list, off it, with the list's reference.
    Ref<T> remove(T& item)
    {
        HW_STEP();
        Node& n = node(item);
        n.membership_.leave(name());
        n.prev_->next_ = n.next_;
        n.next_->prev_ = n.prev_;
        n.next_ = n.prev_ = nullptr;
        return Ref<T>::adopt(&item);
    }
    Ref<T> pop_front() { return empty() ? Ref<T>() : remove(*front()); }
    // Moves everything of other before what is here, keeping the order.
    void splice_front(RefList& other)
    {
        if (other.empty())
            return;
        other.watch_.changed(name());
        watch_.changed(name());
        if constexpr (Membership<Tag>::is_known)
            for (Node* n = other.head_.next_; n != &other.head_; n = n->next_)
                n->membership_.join(watch_);
        Node* first = other.head_.next_;
        Node* last = other.head_.prev_;
        last->next_ = head_.next_;
        head_.next_->prev_ = last;
        head_.next_ = first;
        first->prev_ = &head_;
        other.clear_links();
    }
    // Drops every member. Outside of locks: the last reference may go. So no other context may use the list any more.
    void clear()
    {
        watch_.unshare();
        while (pop_front())
            ;
    }

private:
    static Node& node(const T& item) { return const_cast<Node&>(static_cast<const Node&>(item)); }
    T* to(Node* n) const { return n == &head_ ? nullptr : static_cast<T*>(n); }
    static const char* name() { return __PRETTY_FUNCTION__; }
    // item is on this list, and the list may be read now.
    void expect(const T& item) const
    {
        HW_STEP();
        watch_.read(name());
        node(item).membership_.expect(watch_, name());
    }
    void clear_links() { head_.next_ = head_.prev_ = &head_; }
    void insert_before(Node& place, T* item)
    {
        Node& n = node(*item);
        if (!HW_ASSERT(!n.linked()))
            return; // it stays where it is, with one reference too many
        HW_STEP();
        watch_.changed(name());
        n.membership_.join(watch_);
        n.next_ = &place;
        n.prev_ = place.prev_;
        place.prev_->next_ = &n;
        place.prev_ = &n;
    }

    Node head_;
    [[no_unique_address]] ListWatch watch_;
};

// Is item on a list of this kind?
template <class Tag, class T> bool is_on(const T& item) { return static_cast<const ListNode<Tag>&>(item).linked(); }

} // namespace hw
