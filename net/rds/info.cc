// SPDX-License-Identifier: GPL-2.0
// RDS_INFO_*: what getsockopt tells of a namespace. Rows are gathered under locks into kernel memory, then copied out.
#include "connection.h"
#include "socket.h"
#include "uapi.h"

namespace rds {

namespace {

constexpr usize max_buffer = 16u << 20; // more rows than this are reported as not fitting
constexpr int max_length = 0x7fffffff - 4096 + 1;

void free_bytes(std::byte* bytes) { kapi_free(bytes); }

// Rows of one size. Those that do not fit are counted only, so that the caller learns how much room it needs.
class Rows {
public:
    Rows(std::byte* buffer, usize capacity) : buffer_(buffer), capacity_(capacity) {}
    template <class Row> void add(const Row& row)
    {
        if (used_ + sizeof(row) <= capacity_)
            kapi_copy(buffer_ + used_, &row, sizeof(row));
        used_ += sizeof(row);
    }
    usize used() const { return used_; }

private:
    std::byte* buffer_;
    usize capacity_;
    usize used_ = 0;
};

void copy_name(u8* to, usize size, const char* from)
{
    for (usize i = 0; i + 1 < size && from[i]; i++)
        to[i] = static_cast<u8>(from[i]);
}

template <class T> u16 wire_port(T port)
{
    Be16 big(port);
    u16 raw;
    kapi_copy(&raw, &big, sizeof(raw));
    return raw;
}

// An IPv4 row has room for four bytes of address and shows only such addresses; an IPv6 row shows all.
template <usize Size> bool fits(const Ip& ip) { return Size == 16 || ip.is_v4(); }
template <usize Size> void put_ip(u8 (&to)[Size], const Ip& ip)
{
    kapi_copy(to, Size == 16 ? ip.bytes() : ip.v4(), Size);
}

void add_counters(Net& net, Rows& rows)
{
    auto add = [&](const char* name, u64 value) {
        rds_abi_info_counter row{};
        copy_name(row.name, sizeof(row.name), name);
        row.value = value;
        rows.add(row);
    };
    for (unsigned i = 0; i < static_cast<unsigned>(Stat::count); i++)
        add(stat_names[i], net.counted(static_cast<Stat>(i)));
    net.module.for_each_transport([&](const rds_transport& t) {
        for (unsigned i = 0; i < t.counters; i++)
            add(t.counter_names[i], t.counter(net.host, i));
    });
}

template <class Row> void add_connections(Net& net, Rows& rows)
{
    net.connections.for_each([&](Connection& c) {
        if (!fits<sizeof(Row::laddr)>(c.local.ip))
            return;
        for (unsigned i = 0; i < max(1u, c.paths()); i++) {
            Path::Snapshot path = c.path(i).snapshot();
            Row row{};
            row.next_tx_seq = path.next_tx;
            row.next_rx_seq = path.next_rx;
            put_ip(row.laddr, c.local.ip);
            put_ip(row.faddr, c.remote.ip);
            copy_name(row.transport, sizeof(row.transport), c.transport.name);
            if (path.sending)
                row.flags |= RDS_ABI_INFO_CONNECTION_FLAG_SENDING;
            if (path.state == PathState::connecting)
                row.flags |= RDS_ABI_INFO_CONNECTION_FLAG_CONNECTING;
            if (path.state == PathState::up)
                row.flags |= RDS_ABI_INFO_CONNECTION_FLAG_CONNECTED;
            if constexpr (requires { row.tos; })
                row.tos = c.tos;
            rows.add(row);
        }
    });
}

template <class Row> Row message_row(const Header& header, u32 length, const Ip& from, const Ip& to, u8 tos)
{
    Row row{};
    row.seq = header.sequence;
    row.len = length;
    put_ip(row.laddr, from);
    put_ip(row.faddr, to);
    row.lport = wire_port<u16>(header.sport);
    row.fport = wire_port<u16>(header.dport);
    row.tos = tos;
    return row;
}

template <class Row> void add_sent(Net& net, Rows& rows, bool retransmits)
{
    net.connections.for_each([&](Connection& c) {
        if (!fits<sizeof(Row::laddr)>(c.local.ip))
            return;
        for (unsigned i = 0; i < c.path_count(); i++)
            c.path(i).for_each_message(retransmits, [&](Message& m) {
                rows.add(message_row<Row>(m.header(), m.length(), c.local.ip, c.remote.ip, c.tos));
            });
    });
}

template <class Row> void add_received(Net& net, Rows& rows)
{
    net.binds.for_each([&](Socket& socket) {
        if (!fits<sizeof(Row::laddr)>(socket.bound_key().ip))
            return;
        socket.for_each_received([&](Incoming& i) {
            // Seen from the receiver: its own address and port come first.
            Row row = message_row<Row>(i.header, i.length(), socket.bound_key().ip, i.source.ip, 0);
            row.lport = wire_port<u16>(i.header.dport);
            row.fport = wire_port<u16>(i.header.sport);
            rows.add(row);
        });
    });
}

template <class Row> void add_sockets(Net& net, Rows& rows)
{
    net.binds.for_each([&](Socket& socket) {
        Socket::Info info = socket.info();
        const Ip& bound = socket.bound_key().ip;
        if (!fits<sizeof(Row::bound_addr)>(bound))
            return;
        Row row{};
        row.sndbuf = info.sndbuf;
        row.rcvbuf = info.rcvbuf;
        row.inum = info.inode;
        put_ip(row.bound_addr, bound);
        row.bound_port = wire_port<u16>(socket.bound_key().port);
        if (!info.peer.ip.is_any() && fits<sizeof(Row::bound_addr)>(info.peer.ip))
            put_ip(row.connected_addr, info.peer.ip);
        row.connected_port = wire_port<u16>(info.peer.port);
        rows.add(row);
    });
}

template <class Row> void add_tcp_sockets(Net& net, Rows& rows)
{
    net.connections.for_each([&](Connection& c) {
        if (c.loops() || !c.transport.socket_row || !fits<sizeof(Row::local_addr)>(c.local.ip))
            return;
        for (unsigned i = 0; i < c.path_count(); i++) {
            rds_tcp_socket_row from{};
            if (!c.with_state([&](void* state) { return c.transport.socket_row(state, i, &from) != 0; }))
                continue;
            Row row{};
            put_ip(row.local_addr, Ip::from(from.local.ip));
            put_ip(row.peer_addr, Ip::from(from.peer.ip));
            row.local_port = wire_port<u16>(from.local.port);
            row.peer_port = wire_port<u16>(from.peer.port);
            row.hdr_rem = from.header_left;
            row.data_rem = from.data_left;
            row.last_sent_nxt = from.sent_next;
            row.last_expected_una = from.expected_una;
            row.last_seen_una = from.seen_una;
            if constexpr (requires { row.tos; })
                row.tos = from.tos;
            rows.add(row);
        }
    });
}

// Fills rows and returns the size of one; 0: nobody provides this item.
usize gather(Net& net, int option, Rows& rows)
{
    switch (option) {
    case RDS_ABI_INFO_COUNTERS: add_counters(net, rows); return sizeof(rds_abi_info_counter);
    case RDS_ABI_INFO_CONNECTIONS:
        add_connections<rds_abi_info_connection>(net, rows);
        return sizeof(rds_abi_info_connection);
    case RDS_ABI_INFO_SEND_MESSAGES:
        add_sent<rds_abi_info_message>(net, rows, false);
        return sizeof(rds_abi_info_message);
    case RDS_ABI_INFO_RETRANS_MESSAGES:
        add_sent<rds_abi_info_message>(net, rows, true);
        return sizeof(rds_abi_info_message);
    case RDS_ABI_INFO_RECV_MESSAGES: add_received<rds_abi_info_message>(net, rows); return sizeof(rds_abi_info_message);
    case RDS_ABI_INFO_SOCKETS: add_sockets<rds_abi_info_socket>(net, rows); return sizeof(rds_abi_info_socket);
    case RDS_ABI_INFO6_CONNECTIONS:
        add_connections<rds_abi_info6_connection>(net, rows);
        return sizeof(rds_abi_info6_connection);
    case RDS_ABI_INFO6_SEND_MESSAGES:
        add_sent<rds_abi_info6_message>(net, rows, false);
        return sizeof(rds_abi_info6_message);
    case RDS_ABI_INFO6_RETRANS_MESSAGES:
        add_sent<rds_abi_info6_message>(net, rows, true);
        return sizeof(rds_abi_info6_message);
    case RDS_ABI_INFO6_RECV_MESSAGES:
        add_received<rds_abi_info6_message>(net, rows);
        return sizeof(rds_abi_info6_message);
    case RDS_ABI_INFO6_SOCKETS: add_sockets<rds_abi_info6_socket>(net, rows); return sizeof(rds_abi_info6_socket);
    default: break;
    }
    const rds_transport* tcp = net.module.transport(RDS_TRANSPORT_TCP);
    if (!tcp)
        return 0; // RDS_INFO_TCP_SOCKETS is the transport's
    usize size = 0;
    if (option == RDS_ABI_INFO_TCP_SOCKETS) {
        add_tcp_sockets<rds_abi_info_tcp_socket>(net, rows);
        size = sizeof(rds_abi_info_tcp_socket);
    } else if (option == RDS_ABI_INFO6_TCP_SOCKETS) {
        add_tcp_sockets<rds_abi_info6_tcp_socket>(net, rows);
        size = sizeof(rds_abi_info6_tcp_socket);
    }
    Module::drop_transport(tcp);
    return size;
}

} // namespace

// Returns the size of a row, as users of these items expect; length becomes that of all rows.
Result<int> Socket::get_info(int option, const kapi_optval* value, int& length, bool& report)
{
    report = false;
    if (length < 0 || length > max_length)
        return fail(KAPI_EINVAL);
    // All of the buffer must be there, also what is not filled today: programs find their mistakes at once.
    TRY(check(kapi_optval_probe_out(value, static_cast<usize>(length))));
    usize capacity = min<usize>(static_cast<usize>(length), max_buffer);
    Own<std::byte, free_bytes> buffer;
    if (capacity) {
        buffer.reset(static_cast<std::byte*>(kapi_zalloc(capacity, KAPI_SLEEP)));
        if (!buffer)
            return fail(KAPI_ENOMEM);
    }
    Rows rows(buffer.get(), capacity);
    usize each = gather(net, option, rows);
    if (!each)
        return fail(KAPI_ENOPROTOOPT);
    length = static_cast<int>(min<usize>(rows.used(), 0x7fffffff));
    report = true;
    if (rows.used() > capacity)
        return fail(KAPI_ENOSPC);
    if (rows.used())
        TRY(check(kapi_optval_copy_out(value, 0, buffer.get(), rows.used())));
    return static_cast<int>(each);
}

} // namespace rds
