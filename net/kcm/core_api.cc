// SPDX-License-Identifier: GPL-2.0
// The C functions that kcm.ko's glue calls: conversions and nothing else.
#include "glue/kcm_core.h"
#include "net.h"
#include "socket.h"

using namespace kcm;

namespace {

Net& net_of(kcm_net* net) { return *reinterpret_cast<Net*>(net); }
Socket& socket_of(kcm_socket* socket) { return *reinterpret_cast<Socket*>(socket); }

int to_c(const Result<>& result) { return result ? 0 : result.error().to_c(); }
s64 to_c(const Result<u32>& result) { return result ? static_cast<s64>(*result) : result.error().to_c(); }

} // namespace

extern "C" {

int kcm_core_init(void) { return to_c(Module::start()); }
void kcm_core_exit(void) { Module::stop(); }

int kcm_net_create(kapi_net* host, kcm_net** net)
{
    auto made = Net::create(host);
    if (!made)
        return made.error().to_c();
    *net = reinterpret_cast<kcm_net*>(*made);
    return 0;
}
void kcm_net_destroy(kcm_net* net) { Net::destroy(&net_of(net)); }
unsigned kcm_net_muxes(kcm_net* net) { return net_of(net).muxes(); }
void kcm_net_show(kcm_net* net, const kcm_rows* rows, void* context) { net_of(net).show(*rows, context); }
int kcm_net_report_connection(kcm_net* net, kapi_report_place* place, kapi_report* report)
{
    return net_of(net).report_connection(*place, report);
}
int kcm_net_report_mux(kcm_net* net, kapi_report_place* place, kapi_report* report)
{
    return net_of(net).report_mux(*place, report);
}
void kcm_net_totals(kcm_net* net, kcm_totals* totals) { net_of(net).totals(*totals); }

int kcm_socket_check(int type, int protocol)
{
    if (type != KCM_ABI_SOCK_DGRAM && type != KCM_ABI_SOCK_SEQPACKET)
        return -KAPI_ESOCKTNOSUPPORT;
    return protocol == 0 ? 0 : -KAPI_EPROTONOSUPPORT;
}
int kcm_socket_create(kcm_net* net, kapi_sk* sk, int type, kcm_socket* sibling, kcm_socket** socket)
{
    auto made = Socket::create(net_of(net), sk, type, sibling ? &socket_of(sibling) : nullptr);
    if (!made)
        return made.error().to_c();
    *socket = reinterpret_cast<kcm_socket*>(*made);
    return 0;
}
void kcm_socket_release(kcm_socket* socket) { socket_of(socket).release(); }
void kcm_socket_destroy(kcm_socket* socket) { Socket::destroy(&socket_of(socket)); }
s64 kcm_socket_sendmsg(kcm_socket* socket, const kcm_send* send) { return to_c(socket_of(socket).send(*send)); }
void kcm_socket_send_limit_changed(kcm_socket* socket) { socket_of(socket).send_limit_changed(); }
s64 kcm_socket_recvmsg(kcm_socket* socket, kcm_receive* receive) { return to_c(socket_of(socket).receive(*receive)); }
unsigned kcm_socket_poll(kcm_socket* socket, kapi_poll* poll) { return socket_of(socket).poll(poll); }
int kcm_socket_setsockopt(kcm_socket* socket, int name, const kapi_optval* value, int length)
{
    return to_c(socket_of(socket).set_option(name, value, length));
}
int kcm_socket_getsockopt(kcm_socket* socket, int name, const kapi_optval* value, int* length)
{
    return to_c(socket_of(socket).get_option(name, value, *length));
}
int kcm_socket_ioctl(kcm_socket* socket, unsigned command, const kapi_optval* argument, int nonblocking)
{
    return to_c(socket_of(socket).ioctl(command, argument, nonblocking != 0));
}

} // extern "C"
