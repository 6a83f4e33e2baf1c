// SPDX-License-Identifier: GPL-2.0
#include "incoming.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

constexpr u32 inline_max = 4096; // payloads up to here are copied into the object

} // namespace

Result<Ref<Incoming>> Incoming::create(const Header& header)
{
    u32 length = header.length;
    bool is_map = header.flags == flag_congestion_map;
    bool inlined = length <= inline_max && !is_map;
    usize tail = inlined ? length : 0;
    void* memory = kapi_alloc(sizeof(Incoming) + tail, KAPI_ATOMIC); // as Message::create()
    if (!memory)
        return fail(KAPI_ENOMEM);
    auto incoming = Ref<Incoming>::adopt(::new (memory) Incoming());
    incoming->header = header;
    incoming->inlined_ = inlined;
    incoming->true_size_ = kapi_alloc_true_size(sizeof(Incoming) + tail);
    if (is_map) {
        incoming->map_ = static_cast<std::byte*>(kapi_alloc(length, KAPI_ATOMIC));
        if (!incoming->map_)
            return fail(KAPI_ENOMEM);
    }
    return incoming;
}

Result<Ref<Incoming>> Incoming::from_message(Ref<Message> message)
{
    void* room = message->room_for_incoming();
    auto* incoming = room ? ::new (room) Incoming() : make_with_tail<Incoming>(Alloc::atomic_charged, 0);
    if (!incoming)
        return fail(KAPI_ENOMEM);
    incoming->header = message->header();
    incoming->filled_ = message->length();
    incoming->true_size_ = (room ? 0 : kapi_alloc_true_size(sizeof(Incoming))) + message->true_size();
    incoming->looped_ = std::move(message);
    return Ref<Incoming>::adopt(incoming);
}

void Incoming::destroy(Incoming* incoming)
{
    if (!incoming->looped_ || !incoming->looped_->room_for_incoming())
        return dispose(incoming);
    Ref<Message> memory = incoming->looped_; // in which it is, until it has ended
    incoming->~Incoming();
}

Incoming::~Incoming()
{
    if (partial_)
        connection->path(path).partial().give(connection->net.peers_memory, partial_size());
    kapi_free(map_);
    if (payer_)
        kapi_sk_uncharge(payer_, charged_);
    if (counted_by_)
        counted_by_->uncharged_ended(*this);
}

bool Incoming::charge(kapi_sk* sk)
{
    usize size = true_size();
    int result = kapi_sk_charge(sk, size);
    if (result >= 0) {
        payer_ = sk;
        charged_ = size;
    }
    return result == 0;
}

Result<> Incoming::expect(usize size)
{
    if (size >= left()) {
        all_offered_ = true;
        connection->path(path).partial().proceeds(connection->net.peers_memory);
    }
    if (all_offered_ || partial_)
        return {};
    if (!connection->path(path).partial().take(connection->net.peers_memory, partial_size()))
        return fail(KAPI_ENOMEM);
    partial_ = true;
    return {};
}

Result<> Incoming::append(kapi_rx* rx, usize offset, u32 size)
{
    if (!HW_ASSERT(size <= left()))
        return fail(KAPI_EINVAL);
    TRY(expect(size));
    if (map_) {
        kapi_rx_copy(rx, offset, map_ + filled_, size);
    } else if (inlined_) {
        kapi_rx_copy(rx, offset, inline_payload() + filled_, size);
    } else {
        TRY(large_.append(rx, offset, size));
    }
    filled(size);
    return {};
}

Result<> Incoming::attach(RxBuffer& buffer, u32 size)
{
    if (!HW_ASSERT(size <= left()))
        return fail(KAPI_EINVAL);
    TRY(expect(size));
    if (map_)
        kapi_rxbuf_copy(buffer.get(), 0, map_ + filled_, size);
    else if (inlined_)
        kapi_rxbuf_copy(buffer.get(), 0, inline_payload() + filled_, size);
    else
        TRY(large_.append(buffer, size));
    filled(size);
    return {};
}

void Incoming::filled(u32 size)
{
    filled_ += size;
    if (partial_)
        connection->path(path).partial().got(size);
    if (left() == 0 && std::exchange(partial_, false))
        connection->path(path).partial().give(connection->net.peers_memory, partial_size());
}

const std::byte* Incoming::map_payload() const
{
    return HW_ASSERT(map_ && filled_ == map_bytes) ? map_ : nullptr;
}

Result<> Incoming::copy_to_user(kapi_msg* msg, u32 size) const
{
    if (!HW_ASSERT(size <= header.length))
        return fail(KAPI_EINVAL);
    if (size == 0)
        return {};
    if (looped_)
        return looped_->copy_payload(0, size, msg);
    if (inlined_)
        return check(kapi_msg_copy_out(msg, inline_payload(), size));
    return large_.copy_to_user(msg, 0, size);
}

} // namespace rds
