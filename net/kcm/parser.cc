// SPDX-License-Identifier: GPL-2.0
#include "parser.h"

#include "psock.h"
#include "socket.h"

namespace kcm {

namespace {

// EHWPOISON, the last that programs know. What is above means something within the kernel: 512 makes it repeat a system call.
constexpr s32 last_errno = 133;

// Of a call on a socket EAGAIN would say that nothing has come, and EINTR that a signal came, which kapi takes for no error.
bool is_error(s32 said)
{
    return said >= -last_errno && said != -KAPI_EAGAIN && said != -KAPI_EINTR;
}

} // namespace

Parser::Outcome Parser::feed(kapi_rx* rx, usize length, Psock& owner)
{
    usize used = 0;
    Outcome step;
    while (used < length && step.stop == Stop::none) {
        if (kapi_rx_turn_is_over(rx))
            step = {0, Stop::enough};
        else if (partial_)
            step = fill(rx, used, length, owner);
        else if (head_size_)
            step = grow_head(rx, used, length, owner);
        else
            step = deliver_run(rx, used, length, owner);
        used += step.used;
    }
    step.used = used;
    return step;
}

// What the program said, shown that many bytes: the length, 0 for "more", or an error.
Result<u32> Parser::check_result(s32 said, usize shown, u32 limit)
{
    if (said < 0)
        return fail(is_error(said) ? -said : KAPI_EPROTO);
    if (said == 0 && shown == KAPI_FILTER_VIEW)
        return fail(KAPI_EMSGSIZE);
    if (static_cast<u32>(said) > limit)
        return fail(KAPI_EMSGSIZE);
    return static_cast<u32>(said);
}

Result<> Parser::need_view(kapi_rx* rx)
{
    TRY(view_charge_.cover(rx, kapi_alloc_true_size(KAPI_FILTER_VIEW)));
    if (!view_)
        view_.reset(static_cast<u8*>(kapi_alloc(KAPI_FILTER_VIEW, KAPI_ATOMIC)));
    if (view_)
        return {};
    drop_view(); // nothing is charged while it waits
    return fail(KAPI_ENOMEM);
}

void Parser::drop_view()
{
    view_.reset();
    view_charge_.drop();
    head_size_ = 0;
}

// What the program says of a message for which it gave no length, or of which more is to come, when it was shown the first bytes.
// An error counts only when the program was shown all that is available: before, it may have loaded bytes beyond.
Result<u32> Parser::measure(s32 said, kapi_rx* rx, usize at, usize available, u32 limit)
{
    usize shown = min(available, static_cast<usize>(KAPI_FILTER_FIRST_VIEW));
    if (said <= 0 && available > shown) {
        shown = min(available, static_cast<usize>(KAPI_FILTER_VIEW));
        said = kapi_filter_run_rx(filter_.get(), rx, at, shown);
    }
    return check_result(said, shown, limit);
}

// The messages that are whole, as many as go to one socket at once.
void Parser::find_run(kapi_rx* rx, usize at, usize length, Psock& owner, Run& run)
{
    kapi_filter_found found{.lengths = run.lengths, .count = 0, .most = owner.run_limit(), .longest = owner.message_limit(),
                            .said = 0, .stopped = 0};
    run.end = at;
    while (found.count < found.most && run.end < length && !(found.count && kapi_rx_turn_is_over(rx))) {
        run.end = kapi_filter_find(filter_.get(), rx, run.end, length, &found);
        if (!std::exchange(found.stopped, 0u))
            continue;
        auto measured = measure(found.said, rx, run.end, length - run.end, found.longest);
        if (!measured) {
            run.error = measured.error().code();
            break;
        }
        if (*measured == 0 || *measured > length - run.end) {
            run.next = *measured;
            break;
        }
        run.lengths[found.count++] = *measured;
        run.end += *measured;
    }
    run.count = found.count;
}

Parser::Outcome Parser::deliver_run(kapi_rx* rx, usize at, usize length, Psock& owner)
{
    HW_UNINITIALIZED Run run;
    run.count = 0;
    run.next = 0;
    run.error = 0;
    if (!owner.may_deliver())
        return {0, Stop::blocked};
    find_run(rx, at, length, owner, run);
    if (!run.count) {
        if (run.error)
            return {0, Stop::error, run.error};
        return begin(rx, at, length, run.next, owner);
    }
    u32 total = static_cast<u32>(run.end - at);
    auto made = Bundle::create(rx, owner.id, {run.lengths, run.count}, total);
    if (!made || !(*made)->append(rx, at, total))
        return {0, Stop::memory};
    sequence_ += run.count;
    owner.deliver(std::move(*made));
    return {run.end - at, Stop::none}; // what is behind is looked at again
}

// Takes what is there of a message that is not whole.
Parser::Outcome Parser::begin(kapi_rx* rx, usize at, usize length, u32 total, Psock& owner)
{
    if (total) {
        auto made = Bundle::create(rx, owner.id, {&total, 1}, total);
        if (!made)
            return {0, Stop::memory};
        partial_ = std::move(*made);
        Outcome filled = fill(rx, at, length, owner);
        if (!partial())
            partial_ = nullptr; // nothing is held while it waits: it would never give way
        return filled;
    }
    needed_more_.store_relaxed(needed_more_.load_relaxed() + 1);
    if (!need_view(rx))
        return {0, Stop::memory};
    head_size_ = static_cast<u32>(length - at); // less than the whole view: check_result() refuses more
    kapi_rx_copy(rx, at, view_.get(), head_size_);
    return {head_size_, Stop::none};
}

// Shows the program what was kept with what has come since. Only what the message has of it is taken.
Parser::Outcome Parser::grow_head(kapi_rx* rx, usize at, usize length, Psock& owner)
{
    u32 more = static_cast<u32>(min(length - at, static_cast<usize>(KAPI_FILTER_VIEW) - head_size_));
    kapi_rx_copy(rx, at, view_.get() + head_size_, more);
    u32 shown = head_size_ + more;
    s32 said = kapi_filter_run(filter_.get(), view_.get(), shown);
    auto measured = check_result(said, shown, owner.message_limit());
    if (measured && *measured && *measured < head_size_)
        measured = fail(KAPI_EPROTO);
    if (!measured)
        return {0, Stop::error, measured.error().code()};
    if (*measured == 0) {
        needed_more_.store_relaxed(needed_more_.load_relaxed() + 1);
        head_size_ = shown;
        return {more, Stop::none};
    }
    auto made = Bundle::create(rx, owner.id, {&*measured, 1}, *measured);
    if (!made || !(*made)->append(rx, view_.get(), head_size_))
        return {0, Stop::memory};
    partial_ = std::move(*made);
    drop_view();
    return fill(rx, at, length, owner);
}

Parser::Outcome Parser::fill(kapi_rx* rx, usize at, usize length, Psock& owner)
{
    u32 part = static_cast<u32>(min(length - at, static_cast<usize>(partial_->left())));
    bool last = part == partial_->left();
    if (last && !owner.may_deliver())
        return {0, Stop::blocked};
    if (!partial_->append(rx, at, part))
        return {0, Stop::memory};
    if (last) {
        sequence_++;
        owner.deliver(std::move(partial_));
    }
    return {part, Stop::none};
}

void Parser::drop()
{
    partial_ = nullptr;
    drop_view();
    dropped_ = true;
}

const kapi_piece* Parser::pieces(kapi_piece& first) const
{
    if (partial_)
        return partial_->pieces(first);
    if (!head_size_)
        return nullptr;
    first = {nullptr, view_.get(), nullptr, head_size_};
    return &first;
}

} // namespace kcm
