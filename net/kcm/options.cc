// SPDX-License-Identifier: GPL-2.0
// Socket options and ioctls.
#include "net.h"
#include "socket.h"

namespace kcm {

namespace {

constexpr u32 largest_message = 64u << 20; // that KCM_MAX_MESSAGE allows

void free_stats(kcm_abi_connection_stats* stats) { kapi_free(stats); }

template <class T> Result<T> argument(const kapi_optval* value)
{
    T read;
    TRY(check(kapi_optval_copy_in(value, &read, sizeof(read))));
    return read;
}

} // namespace

Result<> Socket::set_option(int option, const kapi_optval* value, int length)
{
    if (length < static_cast<int>(sizeof(s32)))
        return fail(KAPI_EINVAL);
    s32 given = TRY(argument<s32>(value));
    switch (option) {
    case KCM_ABI_RECV_DISABLE:
        mux->distributor.set_disabled(*this, given != 0);
        if (given && has_error())
            rest_is_read(); // by others: this socket holds no error back any more
        return {};
    case KCM_ABI_ERRORS:
        watch_errors(given != 0);
        return {};
    case KCM_ABI_RECV_CONNECTION:
        tell_connection_.store_relaxed(given != 0);
        return {};
    case KCM_ABI_RECV_LENGTHS:
        tell_lengths_.store_relaxed(given != 0);
        return {};
    case KCM_ABI_MAX_MESSAGE:
        if (static_cast<u32>(given) > largest_message)
            return fail(KAPI_EINVAL);
        max_message_.store_relaxed(static_cast<u32>(given));
        return {};
    case KCM_ABI_STEERING:
        if (given < KCM_ABI_STEER_ROUND_ROBIN || given > KCM_ABI_STEER_CPU)
            return fail(KAPI_EINVAL);
        mux->distributor.set_steering(given);
        return {};
    default:
        return fail(KAPI_ENOPROTOOPT);
    }
}

Result<> Socket::get_option(int option, const kapi_optval* value, int& length)
{
    s32 is;
    if (length < 0)
        return fail(KAPI_EINVAL);
    switch (option) {
    case KCM_ABI_RECV_DISABLE:
        is = mux->distributor.disabled(*this);
        break;
    case KCM_ABI_ERRORS:
        is = static_cast<s32>(errors_.load_relaxed());
        break;
    case KCM_ABI_RECV_CONNECTION:
        is = static_cast<s32>(tell_connection_.load_relaxed());
        break;
    case KCM_ABI_RECV_LENGTHS:
        is = static_cast<s32>(tell_lengths_.load_relaxed());
        break;
    case KCM_ABI_MAX_MESSAGE:
        is = static_cast<s32>(max_message_.load_relaxed());
        break;
    case KCM_ABI_STEERING:
        is = mux->distributor.steering();
        break;
    case KCM_ABI_STATS:
        return get_stats(value, length);
    case KCM_ABI_ATTACHED:
        return get_attached(value, length);
    default:
        return fail(KAPI_ENOPROTOOPT);
    }
    length = min(length, static_cast<int>(sizeof(is)));
    return check(kapi_optval_copy_out(value, 0, &is, static_cast<usize>(length)));
}

// An array, one for each connection. Too little room: ENOSPC and the length that is needed.
Result<> Socket::get_stats(const kapi_optval* value, int& length)
{
    constexpr unsigned spare = 8; // may be attached between counting and looking
    unsigned room = spare, count = 0;
    mux->visit_all<Psock>([&](Psock&) { room++; });
    Own<kcm_abi_connection_stats, free_stats> table(
        static_cast<kcm_abi_connection_stats*>(kapi_zalloc(room * sizeof(kcm_abi_connection_stats), KAPI_SLEEP_CHARGED)));
    if (!table)
        return fail(KAPI_ENOMEM);
    mux->visit_all<Psock>([&](Psock& psock) {
        if (count < room)
            psock.describe(table.get()[count++]);
    });
    int needed = static_cast<int>(count * sizeof(kcm_abi_connection_stats));
    bool fits = needed <= length;
    length = needed;
    if (!fits)
        return fail(KAPI_ENOSPC);
    return check(kapi_optval_copy_out(value, 0, table.get(), static_cast<usize>(needed)));
}

// Which connection a TCP socket is.
Result<> Socket::get_attached(const kapi_optval* value, int& length)
{
    if (length < static_cast<int>(sizeof(kcm_abi_attached)))
        return fail(KAPI_EINVAL);
    auto attached = TRY(argument<kcm_abi_attached>(value));
    if (attached.reserved)
        return fail(KAPI_EINVAL);
    attached.id = TRY(mux->find_by_fd(attached.fd))->id;
    length = sizeof(attached);
    return check(kapi_optval_copy_out(value, 0, &attached, sizeof(attached)));
}

Result<> Socket::ioctl(unsigned command, const kapi_optval* value, bool nonblocking)
{
    switch (command) {
    case KCM_ABI_ATTACH: {
        auto attach = TRY(argument<kcm_abi_attach>(value));
        return mux->attach(attach.fd, attach.bpf_fd, max_message_.load_relaxed());
    }
    case KCM_ABI_UNATTACH: {
        auto unattach = TRY(argument<kcm_abi_unattach>(value));
        u64 timeout = nonblocking ? 0 : kapi_sk_sndtimeo_ns(sk);
        return mux->unattach(unattach.fd, timeout == KAPI_FOREVER ? KAPI_FOREVER : kapi_now_ns() + timeout);
    }
    default:
        return fail(KAPI_ENOIOCTLCMD);
    }
}

} // namespace kcm
