// SPDX-License-Identifier: GPL-2.0
// RDS_INFO_*: what getsockopt shows of a namespace. Rows are gathered into a small buffer, a few under each lock, and copied
// out whenever it is nearly full: however many there are, no lock is held long and no memory is taken for them. A program that is
// killed meanwhile sees nothing of it: the walk ends.
#include "connection.h"
#include "socket.h"
#include "uapi.h"

namespace rds {

namespace {

// A walk along a socket's queue begins again after each copy to the program, so that copies are large where there is much.
constexpr usize smallest_buffer = 32 * 1024, largest_buffer = 256 * 1024;
constexpr usize piece_bytes = 16 * 1024; // more than the rows that are added under one lock
constexpr unsigned piece_messages = 64;
constexpr int max_length = 0x7fffffff - 4096 + 1;

void free_bytes(std::byte* bytes) { kapi_free(bytes); }

// Rows of one size, on their way to the program. Those that do not fit its buffer are counted only, so that the answer is how
// much room it needs.
class Rows {
public:
    Rows(const kapi_optval* to, usize capacity, std::byte* buffer, usize buffer_bytes)
        : to_(to), capacity_(capacity), buffer_(buffer), buffer_bytes_(buffer_bytes)
    {
    }
    // Any context.
    template <class Row> void add(const Row& row)
    {
        if (total_ + sizeof(row) <= capacity_ && filled_ + sizeof(row) <= buffer_bytes_) {
            kapi_copy(buffer_ + filled_, &row, sizeof(row));
            filled_ += sizeof(row);
        }
        total_ += sizeof(row);
    }
    // For the rows that are added under one lock.
    bool has_room() const { return filled_ + piece_bytes <= buffer_bytes_; }
    // Sleeps. False: the walk is to end.
    bool goes_on() const
    {
        kapi_resched();
        return !kapi_fatal_signal_pending();
    }
    // The same, with room.
    bool make_room()
    {
        if (!has_room())
            static_cast<void>(flush());
        return goes_on(); // also if nothing fits
    }
    // Sleeps. EFAULT, also of an earlier time.
    Result<> flush()
    {
        if (filled_ && outcome_)
            outcome_ = check(kapi_optval_copy_out(to_, copied_, buffer_, filled_));
        copied_ += filled_;
        filled_ = 0;
        return outcome_;
    }
    usize total() const { return total_; }

private:
    const kapi_optval* to_;
    usize capacity_;
    std::byte* buffer_;
    usize buffer_bytes_;
    usize filled_ = 0, copied_ = 0, total_ = 0;
    Result<> outcome_;
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
    net.for_each_counter([&](const char* name, auto&& value) {
        rds_abi_info_counter row{};
        copy_name(row.name, sizeof(row.name), name);
        row.value = value();
        rows.add(row);
    });
}

// Calls visit(T&) for each item of a table, and has rows copied out in between, when no reference is held: a program whose memory
// stalls must not delay the end of an object.
template <class Table, class Visit> void walk(Table& table, Rows& rows, Visit&& visit)
{
    typename Table::Cursor cursor;
    for (bool more = true; more && rows.make_room();) {
        auto item = table.next(cursor);
        more = static_cast<bool>(item);
        if (more)
            visit(*item);
    }
}

template <class Row> void add_connections(Net& net, Rows& rows)
{
    walk(net.connections, rows, [&](Connection& c) {
        if (!fits<sizeof(Row::laddr)>(c.local.ip))
            return;
        for (unsigned i = 0; i < c.path_count(); i++) {
            if (!c.shows(i))
                continue;
            Path::Snapshot path = c.path(i).snapshot();
            Row row{};
            row.next_tx_seq = path.next_tx;
            row.next_rx_seq = path.next_rx > 1 ? path.next_rx : 0; // 0: nothing has arrived, as in the kernel's own
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

// Releases c and the place in one of its queues while rows are copied out, if that is necessary. Null: c has ended, or the walk
// is to.
Ref<Connection> with_room(Net& net, Rows& rows, Ref<Connection> c, SendQueue::Place& place)
{
    if (rows.has_room())
        return rows.goes_on() ? std::move(c) : nullptr;
    place.last = nullptr;
    const rds_transport& transport = c->transport;
    Endpoint local = c->local, remote = c->remote;
    u8 tos = c->tos;
    c = nullptr;
    return rows.make_room() ? net.connections.find(transport, local, remote, tos) : nullptr;
}

template <class Row> void add_sent(Net& net, Rows& rows, bool retransmits)
{
    ConnectionTable::Cursor cursor;
    while (Ref<Connection> c = rows.goes_on() ? net.connections.next(cursor) : nullptr) {
        bool shown = fits<sizeof(Row::laddr)>(c->local.ip);
        for (unsigned i = 0; shown && c && i < c->path_count(); i++) {
            SendQueue::Place place;
            for (bool more = true; more && c;) {
                more = c->path(i).visit_messages(retransmits, place, [&](Message& m) {
                    rows.add(message_row<Row>(m.header(), m.length(), c->local.ip, c->remote.ip, c->tos));
                });
                c = with_room(net, rows, std::move(c), place);
            }
        }
    }
}

template <class Row> void add_received(Net& net, Rows& rows)
{
    BindTable::Cursor cursor;
    while (Ref<Socket> socket = rows.goes_on() ? net.binds.next(cursor) : nullptr) {
        Endpoint bound = socket->bound_key();
        Socket::Place place;
        for (bool more = fits<sizeof(Row::laddr)>(bound.ip); more && socket && rows.goes_on();) {
            more = socket->visit_received(place, piece_messages, [&](Incoming& i) {
                // Seen from the receiver: its own address and port come first.
                Row row = message_row<Row>(i.header, i.length(), bound.ip, i.source.ip, 0);
                row.lport = wire_port<u16>(i.header.dport);
                row.fport = wire_port<u16>(i.header.sport);
                rows.add(row);
            });
            if (rows.has_room())
                continue;
            place.release(), socket = nullptr; // as in walk()
            if (rows.make_room())
                socket = net.binds.find(bound);
        }
    }
}

template <class Row> void add_sockets(Net& net, Rows& rows)
{
    walk(net.binds, rows, [&](Socket& socket) {
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

// Items that a transport provides: these return 0 when it is not there, else the size of a row.
using HeldTransport = Own<const rds_transport, Module::drop_transport>;

template <class Row> usize add_tcp_sockets(Net& net, Rows& rows)
{
    HeldTransport provider(net.module.transport(RDS_TRANSPORT_TCP));
    if (!provider)
        return 0;
    walk(net.connections, rows, [&](Connection& c) {
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
            rows.add(row);
        }
    });
    return sizeof(Row);
}

template <class Row> usize add_ib_connections(Net& net, Rows& rows)
{
    HeldTransport provider(net.module.transport(RDS_TRANSPORT_IB));
    if (!provider)
        return 0;
    walk(net.connections, rows, [&](Connection& c) {
        if (c.loops() || !c.transport.rdma_row || !fits<sizeof(Row::src_addr)>(c.local.ip))
            return;
        for (unsigned i = 0; i < c.path_count(); i++) {
            rds_rdma_row from{};
            static_cast<void>(c.with_state([&](void* state) { return c.transport.rdma_row(state, i, &from), true; }));
            Row row;
            kapi_fill(&row, 0, sizeof(row)); // the padding, too
            put_ip(row.src_addr, c.local.ip);
            put_ip(row.dst_addr, c.remote.ip);
            kapi_copy(row.src_gid, from.local_gid, sizeof(row.src_gid));
            kapi_copy(row.dst_gid, from.remote_gid, sizeof(row.dst_gid));
            row.max_send_wr = from.max_send_wr;
            row.max_recv_wr = from.max_recv_wr;
            row.max_send_sge = from.max_send_sge;
            row.rdma_mr_max = from.mr_max;
            row.rdma_mr_size = from.mr_pages;
            row.tos = c.tos;
            rows.add(row);
        }
    });
    return sizeof(Row);
}

// Fills rows and returns the size of one; 0: no transport provides this item.
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
    case RDS_ABI_INFO_TCP_SOCKETS: return add_tcp_sockets<rds_abi_info_tcp_socket>(net, rows);
    case RDS_ABI_INFO6_TCP_SOCKETS: return add_tcp_sockets<rds_abi_info6_tcp_socket>(net, rows);
    case RDS_ABI_INFO_IB_CONNECTIONS: return add_ib_connections<rds_abi_info_rdma_connection>(net, rows);
    case RDS_ABI_INFO6_IB_CONNECTIONS: return add_ib_connections<rds_abi_info6_rdma_connection>(net, rows);
    default: return 0;
    }
}

} // namespace

// Returns the size of a row, as users of these items expect; length becomes that of all rows.
Result<int> Socket::get_info(int option, const kapi_optval* value, int& length, bool& report)
{
    report = false;
    if (length < 0 || length > max_length)
        return fail(KAPI_EINVAL);
    // All of the buffer must be accessible, also the part that is not filled: programs find their mistakes at once.
    TRY(check(kapi_optval_probe_out(value, static_cast<usize>(length))));
    usize capacity = static_cast<usize>(length);
    usize buffer_bytes = min(max(capacity, smallest_buffer), largest_buffer);
    Own<std::byte, free_bytes> buffer(static_cast<std::byte*>(kapi_alloc(buffer_bytes, KAPI_SLEEP_CHARGED)));
    if (!buffer)
        return fail(KAPI_ENOMEM);
    Rows rows(value, capacity, buffer.get(), buffer_bytes);
    usize each = gather(net, option, rows);
    if (!each)
        return fail(KAPI_ENOPROTOOPT);
    if (!rows.goes_on())
        return fail(KAPI_EINTR);
    TRY(rows.flush());
    length = static_cast<int>(min<usize>(rows.total(), 0x7fffffff));
    report = true;
    if (rows.total() > capacity)
        return fail(KAPI_ENOSPC);
    return static_cast<int>(each);
}

} // namespace rds
