// SPDX-License-Identifier: GPL-2.0
// What completes at a connection, and what it receives.
//
// A request ends when its answer is there and its own requests have completed, whichever comes first; and a read when, beside
// that, its region is invalid. The server is not believed that it has invalidated a region: the device reports it.
#include "connection.h"
#include "link.h"
#include "session.h"

#include "../common/request.h"

namespace rtrs_clt {

void Connection::on_done(void* context, const kapi_wc* wcs, unsigned n)
{
    Connection& self = *static_cast<Connection*>(context);
    u32 cpu = kapi_cpu();
    self.link_.path.stats().completions(n, self.number_ ? self.number_ - 1 : cpu, cpu);
    for (unsigned i = 0; i < n; i++) {
        if (wcs[i].status == KAPI_WC_OK)
            self.done(wcs[i]);
        else
            self.failed(wcs[i].status);
    }
}

// What was posted is the link's after the drain. ETIMEDOUT: the server's host does not answer, so its end is not waited for.
void Connection::failed(kapi_wc_status status)
{
    if (const char* text = text_of(status))
        kapi_log(KAPI_LOG_WARN, "rtrs_client: %s: over %s the server %s", link_.session.name(), link_.device().attrs.name, text);
    bool silent = status == KAPI_WC_RETRY_EXCEEDED;
    link_.path.lost(Errno(silent ? KAPI_ETIMEDOUT : KAPI_ECONNABORTED), silent);
}

void Connection::done(const kapi_wc& wc)
{
    u32 index = static_cast<u32>(wc.cookie >> kind_bits);
    switch (static_cast<Kind>(wc.cookie & ((1u << kind_bits) - 1))) {
    case Kind::io: {
        Io& io = link_.session.io(index);
        io.sent = true;
        progress(io);
        return;
    }
    case Kind::invalidate: {
        Io& io = link_.session.io(index);
        io.registered = false;
        progress(io);
        return;
    }
    case Kind::info_receive:
        if (wc.op == KAPI_WC_RECV && !(wc.flags & (KAPI_WC_IMM | KAPI_WC_INVALIDATED)))
            link_.informed(wc.length);
        else
            broken("something before the information was received");
        return;
    case Kind::receive:
        received(wc);
        return;
    case Kind::plain:
        room_.fetch_add(1);
        return;
    }
}

void Connection::broken(const char* why)
{
    kapi_log(KAPI_LOG_WARN, "rtrs_client: %s: the server breaks the protocol: %s", link_.session.name(), why);
    link_.path.lost(Errno(KAPI_EPROTO));
}

void Connection::received(const kapi_wc& wc)
{
    link_.path.heartbeat().received();
    bool good = true;
    if (wc.flags & KAPI_WC_IMM) {
        auto immediate = rtrs::parse_immediate(wc.imm);
        good = immediate && answered(wc, *immediate);
        has_invalidated_ = false;
    } else if (wc.flags & KAPI_WC_INVALIDATED) {
        invalidated_ = wc.key;
        has_invalidated_ = true;
    } else {
        good = false;
    }
    if (!good)
        return broken("a message that is not expected");
    if (!receive_again(static_cast<u32>(wc.cookie >> kind_bits)))
        link_.path.lost(Errno(KAPI_ENOMEM));
}

// False: it is not one that this connection waits for.
bool Connection::answered(const kapi_wc& wc, rtrs::Immediate immediate)
{
    using rtrs::ImmediateType;
    switch (immediate.type) {
    case ImmediateType::heartbeat:
        post_immediate(ImmediateType::heartbeat_ack);
        return true;
    case ImmediateType::heartbeat_ack:
        link_.path.heartbeat_answered();
        return true;
    case ImmediateType::request:
        return false;
    case ImmediateType::response:
    case ImmediateType::response_invalidated:
        break;
    }
    if (!link_.has_ios())
        return false;
    auto answer = rtrs::parse_answer(immediate.payload, link_.session.geometry().queue_depth());
    if (!answer)
        return false;
    Io& io = link_.session.io(answer->chunk);
    if (io.owner.load_acquire() != serial_ || io.answered || !take_key(wc, answer->chunk))
        return false;
    io.error = answer->error;
    io.answered = true;
    if (io.registered && io.invalidated_by_server && has_invalidated_ && invalidated_ == io.key)
        io.registered = false;
    progress(io);
    return true;
}

// A message that comes with an answer is the key for the next request in this chunk; a whole answer has none.
bool Connection::take_key(const kapi_wc& wc, u32 chunk)
{
    if (wc.op != KAPI_WC_RECV || wc.length == 0) {
        if (link_.computes_keys())
            link_.chunk(chunk).key = rtrs::wire::next_key(link_.chunk(chunk).key);
        return true;
    }
    u32 place = static_cast<u32>(wc.cookie >> kind_bits) * receive_bytes;
    receives_.sync(place, receive_bytes, KAPI_MAP_FOR_CPU);
    rtrs::Bytes bytes(receives_.bytes() + place, wc.length);
    auto key = rtrs::parse_rkey_response(bytes, link_.session.geometry().queue_depth());
    receives_.sync(place, receive_bytes, KAPI_MAP_FOR_DEVICE);
    if (!key || key->chunk != chunk)
        return false;
    link_.chunk(chunk).key = key->key;
    return true;
}

void Connection::progress(Io& io)
{
    if (!io.answered || !io.sent)
        return;
    if (!io.registered)
        finish(io);
    else if (!io.invalidating)
        invalidate(io);
}

void Connection::finish(Io& io)
{
    io.data.end();
    room_.fetch_add(io.requests);
    io.owner.store_release(0);
    link_.path.ended(io);
    link_.session.complete(io, io.error);
}

} // namespace rtrs_clt
