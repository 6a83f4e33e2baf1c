// SPDX-License-Identifier: GPL-2.0
// Control messages: what a program asks of sendmsg, and what recvmsg reports.
#include "socket.h"

namespace kcm {

// ---- sending

// Only our own control messages mean something; others are for other protocols.
Result<Socket::Control> Socket::parse_control(const kcm_send& send)
{
    Control control;
    const u8* at = static_cast<const u8*>(send.control);
    usize left = send.control_length;
    while (left >= sizeof(kcm_abi_cmsghdr)) {
        kcm_abi_cmsghdr head;
        kapi_copy(&head, at, sizeof(head));
        if (head.length < sizeof(head) || head.length > left)
            return fail(KAPI_EINVAL);
        if (head.level == KCM_ABI_SOL_KCM)
            TRY(control.add(head.type, at + sizeof(head), static_cast<usize>(head.length) - sizeof(head)));
        usize step = min((static_cast<usize>(head.length) + 7) & ~usize{7}, left);
        at += step;
        left -= step;
    }
    if (control.count)
        TRY(control.check_lengths(send.size));
    return control;
}

Result<> Socket::Control::add(int type, const u8* data, usize size)
{
    kcm_abi_connection connection;
    switch (type) {
    case KCM_ABI_CONNECTION:
        if (size != sizeof(connection))
            return fail(KAPI_EINVAL);
        kapi_copy(&connection, data, sizeof(connection));
        addressed = true;
        id = connection.id;
        return {};
    case KCM_ABI_LENGTHS:
        if (count || !size || size % sizeof(u32))
            return fail(KAPI_EINVAL);
        lengths = data;
        count = static_cast<u32>(size / sizeof(u32));
        return {};
    default:
        return fail(KAPI_EINVAL);
    }
}

u32 Socket::Control::length(u32 i) const
{
    u32 length;
    kapi_copy(&length, lengths + i * sizeof(length), sizeof(length));
    return length;
}

Socket::Control::Some Socket::Control::read(u32 next, u32* to) const
{
    Some some{0, 0};
    while (some.count < most && next + some.count < count) {
        u32 one = length(next + some.count);
        if (some.count && some.size + one > most_bytes)
            break;
        to[some.count++] = one;
        some.size += one;
    }
    return some;
}

Result<> Socket::Control::check_lengths(usize size) const
{
    u64 sum = 0;
    for (u32 i = 0; i < count; i++) {
        u32 one = length(i);
        if (!one)
            return fail(KAPI_EINVAL);
        sum += one;
    }
    return sum == size ? Result<>() : fail(KAPI_EINVAL);
}

// ---- receiving

unsigned Socket::room_for_lengths(const kcm_receive& receive, bool beside_connection)
{
    constexpr s64 space_of_connection = sizeof(kcm_abi_cmsghdr) + sizeof(kcm_abi_connection);
    s64 bytes = kapi_msg_cmsg_room(receive.msg) - (beside_connection ? space_of_connection : 0);
    s64 most = max(bytes, s64{0}) / static_cast<s64>(sizeof(u32));
    return static_cast<unsigned>(min(most, s64{Bundle::max_messages}));
}

Result<> Socket::put_control(const Taken& taken, const ReadRoom& room, u32 size, kcm_receive& receive)
{
    if (room.connection) {
        kcm_abi_connection connection{taken.bundle->connection};
        TRY(check(kapi_msg_put_cmsg(receive.msg, KCM_ABI_SOL_KCM, KCM_ABI_CONNECTION, &connection, sizeof(connection))));
    }
    if (!room.lengths)
        return {};
    HW_UNINITIALIZED u32 lengths[Bundle::max_messages];
    for (unsigned i = 0; i < taken.count; i++)
        lengths[i] = taken.bundle->entry(taken.index + i).length;
    if (taken.count == 1)
        lengths[0] = size; // maybe a part
    return check(kapi_msg_put_cmsg(receive.msg, KCM_ABI_SOL_KCM, KCM_ABI_LENGTHS, lengths, taken.count * sizeof(u32)));
}

} // namespace kcm
