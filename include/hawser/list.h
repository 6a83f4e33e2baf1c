// SPDX-License-Identifier: GPL-2.0
// Intrusive doubly linked lists whose membership holds a reference.
//
// An object derives from ListNode<Tag> once for each kind of list it can be on.
#pragma once

#include <hawser/ref.h>

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
};

// T derives from ListNode<Tag> and from RefCounted<T>.
template <class T, class Tag> class RefList : Pinned {
    using Node = ListNode<Tag>;

public:
    RefList() { clear_links(); }
    ~RefList() { HW_ASSERT(empty()); }

    bool empty() const { return head_.next_ == &head_; }
    T* front() const { return empty() ? nullptr : to(head_.next_); }
    T* next(const T& item) const { return node(item).next_ == &head_ ? nullptr : to(node(item).next_); }
    T* back() const { return empty() ? nullptr : to(head_.prev_); }
    T* previous(const T& item) const { return node(item).prev_ == &head_ ? nullptr : to(node(item).prev_); }

    void push_back(Ref<T> item) { insert_before(head_, item.leak()); }
    void push_front(Ref<T> item) { insert_before(*head_.next_, item.leak()); }
    void insert_before(T& place, Ref<T> item) { insert_before(node(place), item.leak()); }
    // Takes item, which is on this list, off it, with the list's reference.
    Ref<T> remove(T& item)
    {
        Node& n = node(item);
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
        Node* first = other.head_.next_;
        Node* last = other.head_.prev_;
        last->next_ = head_.next_;
        head_.next_->prev_ = last;
        head_.next_ = first;
        first->prev_ = &head_;
        other.clear_links();
    }
    // Drops every member. Outside of locks: the last reference may go.
    void clear()
    {
        while (pop_front())
            ;
    }

private:
    static Node& node(const T& item) { return const_cast<Node&>(static_cast<const Node&>(item)); }
    static T* to(Node* n) { return static_cast<T*>(n); }
    void clear_links() { head_.next_ = head_.prev_ = &head_; }
    void insert_before(Node& place, T* item)
    {
        Node& n = node(*item);
        HW_ASSERT(!n.linked());
        n.next_ = &place;
        n.prev_ = place.prev_;
        place.prev_->next_ = &n;
        place.prev_ = &n;
    }

    Node head_;
};

} // namespace hw
