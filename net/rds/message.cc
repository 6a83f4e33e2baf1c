// SPDX-License-Identifier: GPL-2.0
#include "message.h"

#include "connection.h"
#include "socket.h"

namespace rds {

namespace {

// Up to here a payload is copied next to its header and again into the stream's own buffer; above, pages by reference
// save the second copy and are worth their set-up.
constexpr u32 inline_max = 4096 - 256;
constexpr usize page = 4096;

} // namespace

Result<Ref<Message>> Message::create(u32 length, u32 inline_bytes, Alloc mode, bool loops)
{
    usize size = sizeof(Message) + sizeof(Header) + inline_bytes;
    usize room = (size + alignof(Incoming) - 1) / alignof(Incoming) * alignof(Incoming);
    if (!loops || (size <= page && room + sizeof(Incoming) > page)) // apart they take less than two pages
        room = 0;
    if (room)
        size = room + sizeof(Incoming);
    void* memory = kapi_alloc(size, static_cast<kapi_alloc_mode>(mode)); // what is copied there need not be cleared before
    if (!memory)
        return fail(KAPI_ENOMEM);
    auto* message = ::new (memory) Message();
    ::new (static_cast<void*>(message + 1)) Header();
    message->length_ = length;
    message->room_ = static_cast<u32>(room);
    message->true_size_ = kapi_alloc_true_size(size);
    message->header().length = length;
    return Ref<Message>::adopt(message);
}

NoticeBox::NoticeBox(Socket& socket)
{
    socket_.with([&](Socket*& s) { s = &socket; });
}

void NoticeBox::close()
{
    socket_.with([](Socket*& s) { s = nullptr; });
}

bool NoticeBox::reserve()
{
    if (due_.fetch_add(1) < max_due)
        return true;
    due_.fetch_sub(1);
    return false;
}

Ref<Socket> NoticeBox::socket()
{
    return socket_.with([](Socket*& s) { return s ? Ref<Socket>::share(*s) : Ref<Socket>(); });
}

void NoticeBox::put(Ref<ZerocopyBatch> batch)
{
    if (auto to = socket())
        to->zerocopy_done(std::move(batch));
}

void NoticeBox::put(Ref<RdmaNotice> notice)
{
    if (auto to = socket())
        to->rdma_done(std::move(notice));
}

void Message::operation_done(rds_rdma_status status)
{
    operation_->begin(); // a stream may meet the message again, for who cancels it may not have come to its queue yet
    operation_->done(status);
    if (status == RDS_RDMA_SUCCESS && !operation_->c().alone)
        return;
    Ref<Socket> owner = take_owner();
    if (!owner)
        return;
    connection->cancel(*this);
    owner->send_done(*this);
}

void Message::keep_memory()
{
    memory_is_kept_.store_release(1);
    if (operation_)
        operation_->keep_pages();
}

void Message::set_operation(Own<RdmaOperation> operation)
{
    true_size_ += operation->true_size();
    operation_ = std::move(operation);
}

Result<Ref<Message>> Message::from_user(kapi_msg* msg, u32 length, bool loops)
{
    bool inlined = length <= inline_max;
    Ref<Message> message = TRY(create(length, inlined ? length : 0, Alloc::charged, loops));
    if (inlined) {
        if (length)
            TRY(check(kapi_msg_copy_in(msg, message->inline_payload(), length)));
        return message;
    }
    kapi_pages* pages = nullptr;
    TRY(check(kapi_pages_from_msg(msg, length, &pages)));
    message->pages_.reset(pages);
    message->true_size_ += kapi_pages_true_size(pages);
    return message;
}

Result<Ref<Message>> Message::from_user_pages(kapi_msg* msg, u32 length, u32 cookie, Ref<NoticeBox> notices)
{
    Ref<Message> message = TRY(create(length, 0, Alloc::charged));
    // The notice is allocated now, so that completing cannot fail.
    auto* batch = make<ZerocopyBatch>(Alloc::charged);
    if (!batch)
        return fail(KAPI_ENOMEM);
    batch->cookies[batch->count++] = cookie;
    auto notice = Ref<ZerocopyBatch>::adopt(batch);
    if (length) {
        kapi_pages* pages = nullptr;
        TRY(check(kapi_pages_pin_msg(msg, length, &pages)));
        message->pages_.reset(pages);
        message->true_size_ += kapi_pages_true_size(pages);
    }
    if (!notices->reserve())
        return fail(KAPI_ENOMEM);
    message->notices_ = std::move(notices);
    message->zerocopy_ = std::move(notice);
    return message;
}

Result<Ref<Message>> Message::internal(u32 length, Alloc mode)
{
    return create(length, length, mode);
}

void Message::destroy(Message* message)
{
    HW_ASSERT(!message->has_owner());
    bool kept = message->memory_is_kept_.load_acquire();
    if (kept)
        static_cast<void>(message->pages_.release());
    message->pages_.reset(); // the user's pages are free before the user is notified
    if (message->noticed_)
        message->notices_->put(std::move(message->zerocopy_));
    else if (message->notices_)
        message->notices_->taken(1);
    message->~Message();
    if (!kept)
        kapi_free(message);
}

void Message::note_promise(bool promised)
{
    noticed_ = promised && zerocopy_;
    if (operation_)
        operation_->promise_notice(promised);
}

Message::Gathered Message::gather(u32 offset, std::span<kapi_segment> segments)
{
    Gathered gathered{0, 0};
    u32 contiguous = static_cast<u32>(sizeof(Header)) + (pages_ ? 0 : length_);
    if (offset < contiguous && !segments.empty()) {
        auto* bytes = reinterpret_cast<const std::byte*>(this + 1);
        segments[0] = {.addr = bytes + offset, .page = nullptr, .offset = 0, .length = contiguous - offset};
        gathered = {1, contiguous - offset};
        segments = segments.subspan(1);
        offset = contiguous;
    }
    if (pages_ && !segments.empty()) {
        unsigned count = kapi_pages_segments(pages_.get(), offset - sizeof(Header), segments.data(),
                                             static_cast<unsigned>(segments.size()));
        for (unsigned i = 0; i < count; i++)
            gathered.bytes += segments[i].length;
        gathered.count += count;
    }
    return gathered;
}

Result<> Message::copy_payload(u32 offset, u32 size, kapi_msg* msg)
{
    if (pages_)
        return check(kapi_pages_to_msg(pages_.get(), offset, size, msg));
    return check(kapi_msg_copy_out(msg, inline_payload() + offset, size));
}

void Message::set_owner(Ref<Socket> socket)
{
    Socket* old = owner_.exchange(socket.leak());
    HW_ASSERT(!old);
}

Ref<Socket> Message::take_owner()
{
    Socket* socket = owner_.exchange(nullptr);
    return socket ? Ref<Socket>::adopt(socket) : Ref<Socket>();
}

} // namespace rds
