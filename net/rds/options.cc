// SPDX-License-Identifier: GPL-2.0
// Socket options and ioctls of level SOL_RDS. Queries of RDS_INFO_* are in info.cc.
#include "option_value.h"

#include "connection.h"
#include "socket.h"
#include "uapi.h"

namespace rds {

Result<> Socket::set_transport(const kapi_optval* value, int length)
{
    {
        Guard guard(lock_);
        if (transport_ || bound_)
            return fail(KAPI_EOPNOTSUPP);
    }
    int type = TRY(read_exact<int>(value, length));
    if (type < 0 || type >= RDS_ABI_TRANS_COUNT)
        return fail(KAPI_EINVAL);
    // The kernel's own would load the transport's module here, for any user; loading is the administrator's choice.
    const rds_transport* transport = net.module.transport(type);
    if (!transport)
        return fail(KAPI_ENOPROTOOPT);
    {
        Guard guard(lock_);
        if (!transport_ && !bound_) {
            transport_ = transport;
            return {};
        }
    }
    Module::drop_transport(transport);
    return fail(KAPI_EOPNOTSUPP);
}

Result<> Socket::set_rx_traces(const kapi_optval* value, int length)
{
    auto read_traces = read_exact<rds_abi_rx_trace_so>(value, length);
    if (!read_traces) // the kernel's own answers EFAULT to whatever is wrong
        return fail(KAPI_EFAULT);
    const rds_abi_rx_trace_so& traces = *read_traces;
    if (traces.rx_traces > RDS_ABI_RX_TRACE_MAX)
        return fail(KAPI_EFAULT);
    for (unsigned i = 0; i < traces.rx_traces; i++)
        if (traces.rx_trace_pos[i] >= RDS_ABI_RX_TRACE_MAX)
            return fail(KAPI_EFAULT);
    Guard guard(lock_);
    if (closed_)
        return {};
    if (!trace_count_ && traces.rx_traces)
        net.traced_sockets.fetch_add(1);
    if (trace_count_ && !traces.rx_traces)
        net.traced_sockets.fetch_sub(1);
    trace_count_ = traces.rx_traces;
    kapi_copy(traces_, traces.rx_trace_pos, trace_count_);
    return {};
}

Result<> Socket::cancel_sent_to(const kapi_optval* value, int length)
{
    {
        Guard guard(lock_);
        if (bound_to_.ip.is_any())
            return fail(KAPI_ENOTCONN);
    }
    // The length decides, not the family, as in the kernel's own.
    std::byte name[sizeof(rds_abi_sockaddr_in6)] = {};
    usize size = min<usize>(length < 0 ? 0 : static_cast<usize>(length), sizeof(name));
    if (size < sizeof(rds_abi_sockaddr_in))
        return fail(KAPI_EINVAL);
    size = size < sizeof(name) ? sizeof(rds_abi_sockaddr_in) : sizeof(name);
    TRY(check(kapi_optval_copy_in(value, name, size)));
    u16 family = size == sizeof(name) ? RDS_ABI_AF_INET6 : RDS_ABI_AF_INET;
    kapi_copy(name, &family, sizeof(family));
    Endpoint destination = TRY(parse_sockaddr({name, size}));
    cancel_sends(&destination);
    return {};
}

Result<> Socket::set_monitor(bool on)
{
    Guard guard(lock_);
    monitors_ = on;
    if (!on)
        watched_ports_ = freed_ports_ = 0;
    return {};
}

Result<> Socket::set_lengths_wanted(int on)
{
    if (on != 0 && on != 1)
        return fail(KAPI_EINVAL);
    Guard guard(lock_);
    lengths_wanted_ = on;
    return {};
}

Result<> Socket::set_option(int option, const kapi_optval* value, int length)
{
    switch (option) {
    case RDS_ABI_CANCEL_SENT_TO:
        return cancel_sent_to(value, length);
    case RDS_ABI_GET_MR:
        return get_mr(value, length);
    case RDS_ABI_GET_MR_FOR_DEST:
        return get_mr_for_dest(value, length);
    case RDS_ABI_FREE_MR:
        return free_mr(value, length);
    case RDS_ABI_RECVERR:
        recverr_.store_relaxed(TRY(read<int>(value, length)) != 0);
        return {};
    case RDS_ABI_CONG_MONITOR:
        return set_monitor(TRY(read<int>(value, length)) != 0);
    case RDS_ABI_RECV_LENGTHS:
        return set_lengths_wanted(TRY(read<int>(value, length)));
    case RDS_ABI_SO_TRANSPORT:
        return set_transport(value, length);
    case RDS_ABI_SO_TIMESTAMP_OLD:
    case RDS_ABI_SO_TIMESTAMP_NEW: {
        auto on = read_exact<int>(value, length);
        if (!on)
            return fail(KAPI_EFAULT);
        kapi_sk_set_timestamps(sk, option, *on != 0);
        return {};
    }
    case RDS_ABI_SO_MSG_RXPATH_LATENCY:
        return set_rx_traces(value, length);
    default:
        return fail(KAPI_ENOPROTOOPT);
    }
}

Result<int> Socket::get_option(int option, const kapi_optval* value, int& length, bool& report)
{
    int answer;
    if (option >= RDS_ABI_INFO_FIRST && option <= RDS_ABI_INFO_LAST) {
        report = true;
        return get_info(option, value, length, report);
    }
    switch (option) {
    case RDS_ABI_RECVERR:
        answer = static_cast<int>(recverr_.load_relaxed());
        break;
    case RDS_ABI_RECV_LENGTHS: {
        Guard guard(lock_);
        answer = lengths_wanted_;
        break;
    }
    case RDS_ABI_SO_TRANSPORT: {
        Guard guard(lock_);
        answer = transport_ ? transport_->type : RDS_ABI_TRANS_NONE;
        break;
    }
    default:
        return fail(KAPI_ENOPROTOOPT);
    }
    if (length < static_cast<int>(sizeof(answer)))
        return fail(KAPI_EINVAL);
    TRY(check(kapi_optval_copy_out(value, 0, &answer, sizeof(answer))));
    length = sizeof(answer);
    report = true;
    return 0;
}

Result<> Socket::ioctl(unsigned command, const kapi_optval* argument)
{
    if (command == RDS_ABI_SIOCRDSSETTOS) {
        u8 tos;
        TRY(check(kapi_optval_copy_in(argument, &tos, sizeof(tos))));
        Guard guard(lock_);
        if (!transport_ || !transport_->map_tos)
            return fail(KAPI_ENOIOCTLCMD);
        if (tos_ || connection_)
            return fail(KAPI_EINVAL);
        tos_ = transport_->map_tos(tos);
        return {};
    }
    if (command == RDS_ABI_SIOCRDSGETTOS) {
        u8 tos;
        {
            Guard guard(lock_);
            tos = tos_;
        }
        return check(kapi_optval_copy_out(argument, 0, &tos, sizeof(tos)));
    }
    return fail(KAPI_ENOIOCTLCMD);
}

} // namespace rds
