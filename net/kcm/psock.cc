// SPDX-License-Identifier: GPL-2.0
#include "psock.h"

#include "mux.h"
#include "socket.h"
#include "net.h"

namespace kcm {

namespace {

constexpr u64 memory_retry_ns = 10'000'000;

} // namespace

const kapi_stream_ops Psock::stream_ops = {.rx = rx, .acked = acked, .event = event};

Psock::Psock(Mux& of, Ref<Shortage> of_user, Filter filter, u32 max_message)
    : mux(Ref<Mux>::share(of)), id(of.next_id()), shortage(std::move(of_user)), parser_(std::move(filter)),
      max_message_(max_message), resume_work_(*this), assembly_work_(*this), failure_work_(*this), rest_work_(*this)
{
}

Psock::~Psock()
{
    HW_ASSERT(!stream_);
}

void Psock::destroy(Psock* psock)
{
    dispose(psock);
}

Result<Ref<Psock>> Psock::create(Mux& mux, int fd, int bpf_fd, u32 max_message)
{
    u64 key;
    kapi_filter* program;
    TRY(check(kapi_stream_key_of_fd(fd, &key)));
    TRY(check(kapi_filter_get(bpf_fd, &program)));
    Filter filter(program);
    Ref<Shortage> shortage = TRY(Shortage::get(Module::get().users.shortages, kapi_user()));
    auto* made = make<Psock>(Alloc::charged, mux, std::move(shortage), std::move(filter), max_message);
    if (!made)
        return hw::fail(KAPI_ENOMEM);
    auto psock = Ref<Psock>::adopt(made);
    TRY(check(kapi_stream_adopt(fd, mux.workqueue(), &psock->stream_)));
    kapi_stream_addrs(psock->stream_, &psock->local_, &psock->remote_);
    return psock;
}

void Psock::start()
{
    static constexpr kapi_stream_options unchanged{};
    // Its peer may wait for an answer, or be gone: no packet says so.
    static constexpr kapi_stream_options ended{.sndbuf = 0, .rcvbuf = 0, .keepalive_idle_s = 60, .keepalive_interval_s = 10,
                                               .keepalive_count = 6, .nodelay = 0, .shares_port = 0};
    struct kapi_stream_health health;
    kapi_stream_health(stream_, &health);
    had_ended_ = health.eof;
    kapi_stream_attach(stream_, had_ended_ ? &ended : &unchanged, &stream_ops, this);
}

void Psock::begin()
{
    starting_.store_release(0);
    resume_later();
}

kapi_give_back Psock::ending() const
{
    if (parser_.was_dropped())
        return KAPI_GIVE_BACK_LOST;
    return is_to_be_reset() ? KAPI_GIVE_BACK_RESET : KAPI_GIVE_BACK_OPEN;
}

void Psock::detach()
{
    // A task in rx() has left when a call on the stream returns, and nobody enters any more.
    stopped_.store_release(1);
    kapi_stream_resume(stream_);
    mux->distributor.unblock(*this);
    shortage->stop(*this);
    // Works that are queued from here on find that nothing is received.
    if (resume_work_.cancel_sync())
        unref();
    if (assembly_work_.cancel_sync())
        unref();
    kapi_piece first;
    const kapi_piece* unread = parser_.pieces(first);
    kapi_stream_give_back(stream_, unread, ending());
    stream_ = nullptr;
    look_for_rest();
    // A connection that is resumed has the room for itself, and passes on what it leaves. If that was this one, another has
    // to be resumed instead.
    mux->distributor.resume_next();
}

// ---- receiving

unsigned Psock::run_limit() const
{
    // Several workers share what came at once.
    unsigned receivers = max(mux->distributor.receivers(), 1u);
    return max(Bundle::max_messages / receivers, 4u);
}

bool Psock::may_deliver()
{
    return mux->distributor.may_deliver(*this);
}

void Psock::deliver(Ref<Bundle> bundle)
{
    rx_msgs.add(bundle->count());
    rx_bytes.add(bundle->total());
    bundle->count_in(*shortage);
    if (kapi_traces(KAPI_TRACE_KCM_RECEIVE))
        kapi_trace_kcm_message(KAPI_TRACE_KCM_RECEIVE, id, bundle->count(), bundle->total());
    mux->distributor.deliver(std::move(bundle), *wakes_);
}

kapi_size Psock::rx(void* context, kapi_rx* offer, kapi_size length)
{
    return static_cast<Psock*>(context)->receive(offer, length);
}

usize Psock::receive(kapi_rx* offer, usize length)
{
    if (stopped_.load_acquire() || starting_.load_acquire())
        return 0;
    if (gives_way_.load_acquire()) [[unlikely]] {
        end_for_others();
        return 0;
    }
    Parser::Outcome outcome;
    u32 needed_before = parser_.needed();
    {
        Wakes wakes;
        wakes_ = &wakes;
        outcome = parser_.feed(offer, length, *this);
        wakes_ = nullptr;
    }
    bool no_memory = outcome.stop == Parser::Stop::memory;
    bool got_some = outcome.used || parser_.needed() != needed_before; // or a message in place of its beginning
    if (starves_ && (!no_memory || got_some)) {
        starves_ = false;
        shortage->got_memory(*this);
    }
    if (!no_memory || got_some)
        no_memory_since_ns_.store_relaxed(0);
    paused_.store_relaxed(outcome.stop != Parser::Stop::none);
    watch_assembly();
    if (outcome.stop == Parser::Stop::error)
        fail(outcome.error, true);
    else if (no_memory)
        wait_for_memory();
    else if (outcome.stop == Parser::Stop::enough)
        resume_later();
    return outcome.used;
}

void Psock::wait_for_memory()
{
    rx_no_memory.add(1);
    if (!no_memory_since_ns_.load_relaxed())
        no_memory_since_ns_.store_relaxed(kapi_now_ns());
    resume_later(memory_retry_ns);
    if (!parser_.partial())
        return; // it holds nothing
    starves_ = true;
    if (parser_.needed())
        shortage->wait(*this, parser_.partial(), parser_.needed());
    else // a beginning; it lacks as much at least
        shortage->wait(*this, KAPI_FILTER_VIEW, KAPI_FILTER_VIEW);
    if (!receives())
        shortage->stop(*this); // fail() may have done it before
}

// From the callback of any connection, with the lock of the shortage, and it may be detached meanwhile: so it ends in its own
// rx().
void Psock::give_way()
{
    gives_way_.store_release(1);
    resume_later();
}

// What is forgotten cannot be given back, so the connection is reset in the end. It may have very many pieces, but this is no
// softirq: a connection that waits for memory is paused, and reads on in resume() only.
void Psock::end_for_others()
{
    parser_.drop();
    fail(KAPI_ENOMEM, true);
}

void Psock::resume_later(u64 delay_ns)
{
    ref();
    if (!resume_work_.queue(mux->workqueue(), delay_ns))
        unref();
}

void Psock::resume()
{
    bool was_read = !paused() && offered_.load_relaxed();
    if (failed())
        paused_.store_relaxed(0); // set again in rx(), unless TLS offers nothing now: then look_for_rest() goes on
    if (receives())
        kapi_stream_resume(stream_);
    offered_.store_release(1);
    if (failed()) [[unlikely]] {
        if (!was_read)
            mux->read_on(*this);
        look_for_rest();
    }
    // There may be room left, which others wait for.
    mux->distributor.resume_next();
    unref();
}

// A negative SO_RCVTIMEO is stored as 0, and means no limit here as in the kernel's own.
u64 Psock::assembly_timeout_ns() const
{
    u64 timeout = kapi_stream_rcvtimeo_ns(stream_);
    return timeout ? timeout : KAPI_FOREVER;
}

// A message has to be whole within SO_RCVTIMEO of its first byte, unless it is we who do not read the rest.
void Psock::watch_assembly()
{
    u32 partial = parser_.partial();
    partial_bytes_.store_relaxed(partial);
    needed_bytes_.store_relaxed(parser_.needed());
    u64 since = assembly_since_ns_.load_relaxed();
    bool another = std::exchange(assembled_, parser_.sequence()) != parser_.sequence();
    if (another)
        assembly_spent_ns_ = 0;
    if (!partial || paused()) {
        if (since && !another)
            assembly_spent_ns_ = kapi_now_ns() - since;
        assembly_since_ns_.store_relaxed(0);
        return;
    }
    u64 timeout = assembly_timeout_ns();
    if (another || since == 0) {
        since = kapi_now_ns() - assembly_spent_ns_;
        assembly_since_ns_.exchange(since); // before the look at what is due: check_assembly() looks the other way round
    }
    // A check that comes earlier finds out how long is left.
    if (timeout == KAPI_FOREVER || assembly_due_ns_.load() <= since + timeout)
        return;
    assembly_due_ns_.store_relaxed(since + timeout);
    u64 now = kapi_now_ns();
    ref();
    if (!assembly_work_.mod(mux->workqueue(), since + timeout > now ? since + timeout - now : 0))
        unref();
}

void Psock::check_assembly()
{
    assembly_due_ns_.exchange(KAPI_FOREVER);
    u64 since = assembly_since_ns_.load(), now = kapi_now_ns();
    u64 timeout = receives() ? assembly_timeout_ns() : KAPI_FOREVER;
    if (since && timeout != KAPI_FOREVER) {
        if (now - since >= timeout) {
            fail(KAPI_ETIMEDOUT, true);
        } else {
            ref();
            if (assembly_work_.queue(mux->workqueue(), since + timeout - now))
                assembly_due_ns_.store_relaxed(since + timeout);
            else
                unref();
        }
    }
    unref();
}

void Psock::add_totals(kcm_totals& totals) const
{
    totals.connections.rx_msgs += rx_msgs;
    totals.connections.rx_bytes += rx_bytes;
    totals.connections.tx_msgs += tx_msgs;
    totals.connections.tx_bytes += tx_bytes;
    totals.reserved += reserved;
    totals.unreserved += unreserved;
    totals.tx_aborts += tx_aborts;
    totals.rx_aborts += rx_aborts;
    totals.rx_no_memory += rx_no_memory;
    totals.rx_need_more += parser_.needed_more();
    totals.rx_bad_length += rx_bad_length;
    totals.rx_too_big += rx_too_big;
    totals.rx_timeouts += rx_timeouts;
}

void Psock::describe(kcm_abi_connection_stats& stats)
{
    u32 state = 0;
    state |= failed() ? KCM_ABI_CONN_RX_STOPPED | KCM_ABI_CONN_TX_STOPPED : 0;
    state |= mux->reservations.owner(*this) ? KCM_ABI_CONN_RESERVED : 0;
    state |= paused() ? KCM_ABI_CONN_PAUSED : 0;
    stats = {.id = id, .rx_msgs = rx_msgs, .rx_bytes = rx_bytes, .tx_msgs = tx_msgs, .tx_bytes = tx_bytes,
             .tx_reserved = reserved, .rx_partial = partial(), .state = state, .error = error(),
             .local_port = local_.port, .remote_port = remote_.port, .local_addr = {}, .remote_addr = {}};
    kapi_copy(stats.local_addr, local_.ip, sizeof(local_.ip));
    kapi_copy(stats.remote_addr, remote_.ip, sizeof(remote_.ip));
}

// ---- the rest of the stream's life

void Psock::acked(void* context, u32)
{
    auto& psock = *static_cast<Psock*>(context);
    if (!psock.expects_room())
        return;
    if (Ref<SendQueue> owner = psock.mux->reservations.owner(psock))
        owner->wake();
}

void Psock::event(void* context, kapi_stream_event event, int error)
{
    auto& psock = *static_cast<Psock*>(context);
    if (event == KAPI_STREAM_ESTABLISHED)
        return;
    // A peer that had closed its side before the program attached may still listen. What it sent is read as there is room.
    if (event == KAPI_STREAM_EOF && psock.had_ended_)
        return;
    psock.fail(error ? -error : KAPI_EPIPE);
}

} // namespace kcm
