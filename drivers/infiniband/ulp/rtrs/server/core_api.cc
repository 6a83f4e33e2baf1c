// SPDX-License-Identifier: GPL-2.0
// The C functions that the glue of rtrs-server.ko calls.
#include "context.h"

using namespace rtrs_srv;

namespace {

Session& session_of(rtrs_srv_sess* session) { return *reinterpret_cast<Session*>(session); }

} // namespace

extern "C" {

int rtrs_srv_core_init(kapi_module* self, const rtrs_srv_core_params* params)
{
    auto geometry = Geometry::create_for_server(params->sess_queue_depth, params->max_chunk_size);
    if (!geometry) {
        kapi_log(KAPI_LOG_ERR,
                 "rtrs_server: sess_queue_depth %lld (1 to %u) of max_chunk_size %lld (a power of two from %u on) cannot be",
                 params->sess_queue_depth, max_queue_depth, params->max_chunk_size, min_chunk_bytes);
        return geometry.error().to_c();
    }
    auto started = Module::start(self, {*geometry, params->always_invalidate != 0});
    return started ? 0 : started.error().to_c();
}

void rtrs_srv_core_exit(void) { Module::stop(); }

int rtrs_srv_core_open(kapi_net* net, const rtrs_srv_core_ops* ops, void* user, kapi_u16 port, rtrs_srv_core** server)
{
    auto opened = Context::open(net, *ops, user, port);
    if (!opened)
        return opened.error().to_c();
    *server = reinterpret_cast<rtrs_srv_core*>(*opened);
    return 0;
}

void rtrs_srv_core_close(rtrs_srv_core* server) { Context::close(reinterpret_cast<Context*>(server)); }

void rtrs_srv_core_resp(rtrs_srv_op* op, int status)
{
    Operation& operation = *reinterpret_cast<Operation*>(op);
    operation.connection->answer(operation, status < 0 ? -status : status);
}

void rtrs_srv_core_set_priv(rtrs_srv_sess* session, void* priv) { session_of(session).set_priv(priv); }

int rtrs_srv_core_path_name(rtrs_srv_sess* sess, char* name, kapi_size length)
{
    Session& session = session_of(sess);
    auto found = session.context().name_of(session);
    if (!found)
        return found.error().to_c();
    usize size = min(length, sizeof(found->text));
    kapi_copy(name, found->text, size);
    if (size)
        name[size - 1] = '\0';
    return 0;
}

int rtrs_srv_core_queue_depth(rtrs_srv_sess*) { return static_cast<int>(Module::get().settings.geometry.queue_depth()); }

} // extern "C"
