// SPDX-License-Identifier: GPL-2.0
// A program's TCP sockets, which core may take over, and its filters: what the program itself does with them.
#pragma once

#include <kapi/filter.h>
#include <kapi/stream.h>
#include <kapi/wait.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "tcp.h"

/** Stands for a BPF program: what it returns for the bytes it is shown. */
struct kapi_filter {
    sim::Node *node;
    std::function<kapi_s32(const unsigned char *bytes, std::size_t size)> run;
    unsigned references = 1;
};

namespace sim {

/** A program's socket. It lives until its descriptor is closed and core has given it back. */
struct ProgramSocket {
    kapi_u64 key;        // no other of the machine ever has it
    TcbRef tcb;          // null: it is no TCP socket
    bool upper = false;  // another protocol is on top (TLS)
    bool adopted = false, closed = false;
    int error = 0;       // that SO_ERROR returns, positive
    kapi_u64 rcvtimeo_ns = KAPI_FOREVER;
};

// What programs do, from a task of theirs. Descriptors are of the current machine.

/** The stream, not attached, becomes a program's socket, with this SO_RCVBUF (0: the default): the descriptor. */
int program_socket(kapi_stream *stream, kapi_u32 rcvbuf = 0);
/** Connects and waits for it: the descriptor, or a negative errno. */
int program_connect(kapi_net &net, const kapi_addr &local, const kapi_addr &remote);
/** SOCK_DESTROY of all listeners of a namespace, which are core's still. */
void destroy_listeners(kapi_net &net);
/** Listens; null when that fails. */
kapi_listener *program_listen(kapi_net &net, const kapi_addr &addr);
/** Waits for the next connection, which gets this SO_RCVBUF: its descriptor. */
int program_accept(kapi_listener *listener, kapi_u32 rcvbuf = 0);
void program_unlisten(kapi_listener *listener);
/** A socket that is none of TCP. */
int program_other_socket();
/** A descriptor of no socket, as of a pipe. */
int program_pipe();
int program_filter(std::function<kapi_s32(const unsigned char *bytes, std::size_t size)> run);
/** A message is its length in 32 bits, the highest byte first, and so many bytes: the program of KCM's documentation. */
int program_length_filter();
/** The socket behind a descriptor, to set or look at. It must be a TCP socket. */
ProgramSocket &program_socket_of(int fd);
/** SO_RCVBUF and SO_SNDBUF as the kernel keeps them; 0 leaves one as it is. */
void program_set_buffers(int fd, kapi_u32 sndbuf, kapi_u32 rcvbuf);

enum class Wait { no, yes };
/** At most size bytes that are there; 0 at the end of the stream, or a negative errno. */
long program_read(int fd, void *bytes, std::size_t size, Wait wait = Wait::yes);
/** How many of the bytes were taken (with Wait::yes: all, unless an error came between), or a negative errno. */
long program_write(int fd, const void *bytes, std::size_t size, Wait wait = Wait::yes);
/** SO_ERROR: 0, or the negative errno, which is gone then unless the connection is. */
int program_error(int fd);
/** The result of poll: KAPI_IN, KAPI_OUT, KAPI_ERR, KAPI_HUP. */
unsigned program_poll(int fd);
void program_shutdown_write(int fd);
void program_close(int fd);

// For kapi.
kapi_filter *hold(kapi_filter *filter);
void put(kapi_filter *filter);
/** The program or core has given up the socket: ends it when neither has it any more. */
void end_if_unused(ProgramSocket &socket, bool abort);
/** Why nothing can be sent, 0 when it can. socket may be null. With the lock held. */
int cannot_send(const Tcb &tcb, ProgramSocket *socket);

} // namespace sim
