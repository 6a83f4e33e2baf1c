/* SPDX-License-Identifier: GPL-2.0 */
/* KCM sockets, the TCP connections below them, and messages that can be checked, as the test programs use them. */
#ifndef SELFTESTS_LIB_KCM_H
#define SELFTESTS_LIB_KCM_H

#include <linux/kcm.h>
#include <linux/sockios.h>
#include <stddef.h>

#include "net.h"
#include "parser.h"
#include "sock.h"

#ifndef AF_KCM
#define AF_KCM 41
#endif
#ifndef SOL_KCM
#define SOL_KCM 281
#endif

/** kcm_socket - a fresh KCM socket of @type in @ns, the first of a new multiplexor */
int kcm_socket(int ns, int type);
/** kcm_clone - one more socket of the multiplexor of @kcm, or -1 with errno */
int kcm_clone(int kcm);
int kcm_attach(int kcm, int tcp, int program);
int kcm_unattach(int kcm, int tcp);
int kcm_disable(int kcm, int on);

/* The two ends of an established TCP connection; neither end delays small segments. */
struct link {
	int near, far;
};

/** tcp_listener - a listening TCP socket of @family in @ns on loopback */
int tcp_listener(int ns, int family);
/** tcp_link - a connection over the loopback of @ns */
struct link tcp_link(int ns, int family);
void tcp_link_close(struct link *l);
/** tcp_reset - close @fd so that the other end sees a reset */
void tcp_reset(int fd);

/* The smallest useful set-up: a KCM socket, a TCP socket attached to it, and the TCP connection's other end. */
struct rig {
	int kcm, tcp, peer;
};

/** rig_open - over IPv4 in this namespace; @program is the parser */
struct rig rig_open(int type, int program);
/** rig_link - one more connection under the same multiplexor */
struct link rig_link(struct rig *r, int program);
void rig_close(struct rig *r);

/*
 * A frame as in the documentation: four bytes with the length of the payload, big-endian, and the
 * payload. Lengths in these tests are those of whole frames. The content depends on @seed and every position.
 */
#define FRAME_HEADER 4
#define FRAME_MAX (1 << 20)

/** frame_fill - a frame of @len bytes */
void frame_fill(void *buf, size_t len, uint64_t seed);
/** frame_is - are the @n bytes that were received this frame, whole? */
bool frame_is(const void *buf, ssize_t n, size_t len, uint64_t seed);

/** peer_send - all of it, as one write */
void peer_send(int peer, const void *buf, size_t len);
void peer_send_frame(int peer, size_t len, uint64_t seed);
/** peer_takes - true if exactly this frame comes next from the TCP connection */
bool peer_takes(int peer, size_t len, uint64_t seed);
/** peer_reads - read @len bytes within SOON_MS; returns the number read */
size_t peer_reads(int peer, void *buf, size_t len);

/** kcm_recv - recvmsg of one buffer; @flags are the call's, and then the result's; NULL means none */
ssize_t kcm_recv(int kcm, void *buf, size_t len, int *flags);
/** kcm_recv_soon - kcm_recv that waits at most SOON_MS, without any socket time-out being set */
ssize_t kcm_recv_soon(int kcm, void *buf, size_t len, int *flags);
/** kcm_takes - true if exactly this frame is the next message, with MSG_EOR */
bool kcm_takes(int kcm, size_t len, uint64_t seed);
/** kcm_sends - true if a frame is accepted, whole */
bool kcm_sends(int kcm, size_t len, uint64_t seed);

/** stays_quiet - true if there is nothing to read for a while */
bool stays_quiet(int fd);
/** sock_error - SO_ERROR, which clears it */
int sock_error(int fd);
/** sock_error_soon - the first error within SOON_MS, 0 when none comes */
int sock_error_soon(int fd);

#endif
