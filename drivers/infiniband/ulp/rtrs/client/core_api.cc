// SPDX-License-Identifier: GPL-2.0
// The C functions that the glue calls.
#include "glue/rtrs_clt_core.h"
#include "module.h"
#include "session.h"

using namespace rtrs_clt;

namespace {

constexpr u32 least_reconnect_ms = 100;

constexpr rtrs_clt_core_params unset = RTRS_CLT_CORE_PRESETS;
static_assert(unset.heartbeat_interval_ms == heartbeat_range.preset && unset.heartbeat_missed == missed_range.preset &&
              unset.reconnect_delay_ms == reconnect_range.preset && unset.no_path_timeout_ms == no_path_range.preset &&
              unset.io_timeout_ms == io_range.preset);

Result<u32> parameter(unsigned value, const Range& range)
{
    if (value >= range.least && value <= range.most)
        return value;
    kapi_log(KAPI_LOG_ERR, "rtrs_client: %s %u is not between %u and %u", range.name, value, range.least, range.most);
    return fail(KAPI_EINVAL);
}

Result<Presets> presets_of(const rtrs_clt_core_params& params)
{
    Presets presets;
    presets.heartbeat_ms = TRY(parameter(params.heartbeat_interval_ms, heartbeat_range));
    presets.heartbeats_missed = TRY(parameter(params.heartbeat_missed, missed_range));
    presets.reconnect_delay_ms = TRY(parameter(params.reconnect_delay_ms, reconnect_range));
    presets.no_path_ms = TRY(parameter(params.no_path_timeout_ms, no_path_range));
    presets.io_ms = TRY(parameter(params.io_timeout_ms, io_range));
    return presets;
}

Session& session_of(rtrs_clt_session* session) { return *reinterpret_cast<Session*>(session); }
Io& io_of(rtrs_clt_chunk* permit) { return *reinterpret_cast<Io*>(permit); }

Result<Session::Config> config_of(const rtrs_clt_open_args& args)
{
    if (!args.count)
        return fail(KAPI_EINVAL);
    usize length = 0;
    while (args.name[length] && length <= rtrs::max_name)
        length++;
    Session::Config config{};
    config.net = args.net;
    config.name = TRY(rtrs::parse_name({reinterpret_cast<const u8*>(args.name), length}));
    config.port = args.port;
    config.user = {args.priv, args.link};
    return config;
}

// One path after the other: the first one makes the session at the server.
Result<> open_paths(Session& session, const rtrs_clt_open_args& args)
{
    for (unsigned i = 0; i < args.count; i++) {
        PathAddress address{args.routes[i].space, args.routes[i].local, args.routes[i].remote};
        address.local.port = 0;
        address.remote.port = args.port;
        TRY(session.add_path(address));
    }
    session.opened();
    return {};
}

Result<Session*> open(const rtrs_clt_open_args& args)
{
    Session::Config config = TRY(config_of(args));
    Own<Session> session = TRY(Session::create(Module::get(), config));
    Settings& settings = session->settings();
    u32 delay = settings.reconnect_delay_ms.load_relaxed();
    settings.reconnect_delay_ms.store_relaxed(max(least_reconnect_ms, min(delay, args.reconnect_ms)));
    settings.max_reconnects.store_relaxed(args.max_reconnects);
    if (auto opened = open_paths(*session, args); !opened) {
        session->close();
        return fail(opened.error());
    }
    return session.release();
}

} // namespace

extern "C" {

int rtrs_clt_core_init(kapi_module* self, const rtrs_clt_core_params* params)
{
    auto presets = presets_of(*params);
    if (!presets)
        return presets.error().to_c();
    Own<Module> module(make<Module>(Alloc::sleep));
    if (!module)
        return -KAPI_ENOMEM;
    auto started = module->start(self, *presets);
    if (!started)
        return started.error().to_c();
    *kapi_module_slot(KAPI_SLOT_RTRS) = module.release();
    return 0;
}

void rtrs_clt_core_exit(void)
{
    Module* module = &Module::get();
    module->stop();
    *kapi_module_slot(KAPI_SLOT_RTRS) = nullptr;
    dispose(module);
}

int rtrs_clt_core_open(const rtrs_clt_open_args* args, rtrs_clt_session** session)
{
    auto opened = open(*args);
    if (!opened)
        return opened.error().to_c();
    *session = reinterpret_cast<rtrs_clt_session*>(*opened);
    return 0;
}

void rtrs_clt_core_close(rtrs_clt_session* session)
{
    Own<Session> closed(&session_of(session));
    closed->close();
}

kapi_net* rtrs_clt_core_net(const rtrs_clt_session* session)
{
    return reinterpret_cast<const Session*>(session)->net();
}

int rtrs_clt_core_query(rtrs_clt_session* session, rtrs_clt_limits* limits)
{
    Session& of = session_of(session);
    of.user_has_it();
    if (!of.has_path_up())
        return 0;
    *limits = {of.geometry().queue_depth(), of.max_io_bytes(), of.max_pieces()};
    return 1;
}

rtrs_clt_chunk* rtrs_clt_core_get_permit(rtrs_clt_session* session, int admin, int wait)
{
    return reinterpret_cast<rtrs_clt_chunk*>(session_of(session).take_permit(admin, wait));
}

void rtrs_clt_core_put_permit(rtrs_clt_session* session, rtrs_clt_chunk* permit)
{
    session_of(session).give_permit(io_of(permit));
}

void* rtrs_clt_core_message(rtrs_clt_session* session, rtrs_clt_chunk* permit, u32* room)
{
    *room = session_of(session).most_user_bytes();
    return session_of(session).message(io_of(permit).chunk);
}

int rtrs_clt_core_request(rtrs_clt_session* session, rtrs_clt_chunk* permit, const rtrs_clt_request_args* args)
{
    if (args->message_bytes > ~0u || args->data_bytes > ~0u)
        return -KAPI_EMSGSIZE;
    Order order{args->read != 0, args->priv, args->done, args->list, args->count, static_cast<u32>(args->data_bytes),
                static_cast<u32>(args->message_bytes)};
    auto sent = session_of(session).request(io_of(permit), order);
    return sent ? 0 : sent.error().to_c();
}

} // extern "C"
