// SPDX-License-Identifier: GPL-2.0
// What programs read of KCM over netlink, and are notified of (kapi/report.h).
#include "glue/kcm_core.h"
#include "net.h"
#include "psock.h"
#include "socket.h"
#include "uapi.h"

#include <kapi/report.h>
#include <uapi/hawser_netlink.h>

namespace kcm {

namespace {

struct Ends {
    const u8* local;
    u16 local_port;
    const u8* remote;
    u16 remote_port;
};

void add_names(kapi_report* report, const Mux& mux, u64 id, const Ends& ends)
{
    kapi_report_number(report, HAWSER_KCM_CONNECTION_MUX, mux.number);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_ID, id);
    kapi_report_ip(report, HAWSER_KCM_CONNECTION_LOCAL, ends.local);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_LOCAL_PORT, ends.local_port);
    kapi_report_ip(report, HAWSER_KCM_CONNECTION_REMOTE, ends.remote);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_REMOTE_PORT, ends.remote_port);
}

void add_connection(kapi_report* report, const Mux& mux, const kcm_abi_connection_stats& stats)
{
    add_names(report, mux, stats.id, {stats.local_addr, stats.local_port, stats.remote_addr, stats.remote_port});
    kapi_report_number(report, HAWSER_KCM_CONNECTION_STATE, stats.state);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_ERROR, static_cast<u64>(stats.error));
    kapi_report_number(report, HAWSER_KCM_CONNECTION_RX_MESSAGES, stats.rx_msgs);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_RX_BYTES, stats.rx_bytes);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_TX_MESSAGES, stats.tx_msgs);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_TX_BYTES, stats.tx_bytes);
    kapi_report_number(report, HAWSER_KCM_CONNECTION_RX_PARTIAL, stats.rx_partial);
}

// The first connection of mux from index on, which is moved behind it. shown: the id of the one before it, 0 at the beginning; if
// that is gone all before index are passed over.
bool describe_next(Mux& mux, u64& index, u64 shown, kcm_abi_connection_stats& stats)
{
    constexpr unsigned at_a_time = 64; // that are passed over under one lock
    bool found = false;
    Mux::Place<Psock> place;
    place.index = static_cast<unsigned>(index);
    if (shown)
        place.last = mux.find(shown);
    unsigned most = place.last || !index ? 1 : at_a_time;
    static_cast<void>(mux.visit_next(place, most, [&](Psock& psock) {
        if (std::exchange(found, true))
            return;
        psock.describe(stats);
        index = psock.index + 1;
    }));
    return found;
}

void add_mux(kapi_report* report, Mux& mux)
{
    kcm_totals totals{};
    u64 connections = 0, unread = 0, unsent = 0;
    mux.add_totals(totals);
    mux.visit_all<Psock>([&](Psock&) { connections++; });
    mux.visit_all<Socket>([&](Socket& socket) {
        unread += mux.distributor.load(socket).messages;
        unsent += socket.send_load().messages;
    });
    kapi_report_number(report, HAWSER_KCM_MUX_NUMBER, mux.number);
    kapi_report_number(report, HAWSER_KCM_MUX_SOCKETS, mux.socket_count());
    kapi_report_number(report, HAWSER_KCM_MUX_CONNECTIONS, connections);
    kapi_report_number(report, HAWSER_KCM_MUX_RX_MESSAGES, totals.mux.rx_msgs);
    kapi_report_number(report, HAWSER_KCM_MUX_RX_BYTES, totals.mux.rx_bytes);
    kapi_report_number(report, HAWSER_KCM_MUX_TX_MESSAGES, totals.mux.tx_msgs);
    kapi_report_number(report, HAWSER_KCM_MUX_TX_BYTES, totals.mux.tx_bytes);
    kapi_report_number(report, HAWSER_KCM_MUX_UNREAD, unread);
    kapi_report_number(report, HAWSER_KCM_MUX_UNSENT, unsent);
}

void publish_change(const Psock& psock, Changes::Change change)
{
    if (change != Changes::ended) // Psock::fail() has said so
        kapi_log(KAPI_LOG_DEBUG, "kcm: multiplexor %llu connection %llu is %s",
                 static_cast<unsigned long long>(psock.mux->number), static_cast<unsigned long long>(psock.id),
                 change == Changes::attached ? "attached" : "detached");
    kapi_report* report = kapi_event_begin(psock.mux->host, HAWSER_CMD_KCM_CONNECTION_CHANGED);
    if (!report)
        return;
    const kapi_addr &local = psock.local(), &remote = psock.remote();
    add_names(report, *psock.mux, psock.id, {local.ip, local.port, remote.ip, remote.port});
    int error = change == Changes::attached ? 0 : psock.error(); // it may have ended since
    kapi_report_number(report, HAWSER_KCM_CONNECTION_ERROR, static_cast<u64>(error));
    kapi_report_number(report, HAWSER_KCM_CONNECTION_CHANGE, change == Changes::attached ? HAWSER_KCM_ATTACHED :
                       change == Changes::ended ? HAWSER_KCM_ENDED : HAWSER_KCM_DETACHED);
    kapi_event_send(report);
}

} // namespace

void Psock::changed(u32 changes)
{
    changes_.add(changes, [this](Changes::Change change) { publish_change(*this, change); });
}

// The place is the number of a multiplexor, 0 before the first, an index in it, and the id of the connection that was shown
// last. So a program that stops reading holds nothing. What it names is looked up and not walked to: very many multiplexors of
// other users may be before it, and nobody can change the families of generic netlink during a dump's first call.
int Net::report_connection(kapi_report_place& place, kapi_report* report)
{
    u64 number = place.words[0], index = place.words[1], shown = place.words[2];
    kcm_abi_connection_stats stats;
    Ref<Mux> mux = find(number);
    if (!mux)
        mux = next_behind(number ? number - 1 : 0);
    for (; mux; mux = next(std::move(mux))) {
        if (mux->number != number)
            index = shown = 0; // that one is gone, or at its end
        if (describe_next(*mux, index, shown, stats)) {
            add_connection(report, *mux, stats);
            place.words[0] = mux->number, place.words[1] = index, place.words[2] = stats.id;
            return 1;
        }
        kapi_resched();
    }
    return 0;
}

// The place is the number of the one that was shown last.
int Net::report_mux(kapi_report_place& place, kapi_report* report)
{
    u64 behind = place.words[0];
    Ref<Mux> mux = next_behind(behind, find(behind));
    if (!mux)
        return 0;
    add_mux(report, *mux);
    place.words[0] = mux->number;
    return 1;
}

} // namespace kcm
