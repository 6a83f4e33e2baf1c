/* SPDX-License-Identifier: GPL-2.0 */
/* The behaviour of every call, one file a subject, in the order of a connection's life. */
#ifndef SELFTESTS_KCM_API_H
#define SELFTESTS_KCM_API_H

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "kcm.h"
#include "ktap.h"
#include "task.h"
#include "util.h"

/* A frame of medium size; most messages of these tests are such. */
#define MEDIUM 104

/* Both types, for behaviour that is the same for both. */
struct type {
	int value;
	const char *name;
};

#define TYPES 2
extern const struct type types[TYPES];

/* Data received from a connection: whole messages, and bytes of one more. */
struct outcome {
	size_t whole, torso;
	bool broken; /* the peer saw a reset */
};

/** read_all - frames of @len bytes whose seeds count from 0, until a pause or the end of the connection */
struct outcome read_all(int peer, size_t len);

/**
 * fill - messages of @len bytes until EAGAIN, twice: TCP takes some from KCM's queue a little later;
 * returns their number
 */
int fill(int kcm, size_t len);
/** fill_frames - the same with frames whose seeds count from 0 */
int fill_frames(int kcm, size_t len);

/** secure_rig - the same rig over TCP with TLS @version; the far end is a program of its own */
struct rig secure_rig(int type, int family, int version);

/* Shared. */
extern char buf[FRAME_MAX + 1];

void api_before_loading(void);
void api_socket(void);
void api_options(void);
void api_attach(void);
void api_unattach(void);
void api_clone(void);
void api_receive(void);
void api_send(void);
void api_vectors(void);
void api_seqpacket(void);
void api_splice(void);
void api_poll(void);
void api_signals(void);
void api_direct(void);
void api_limits(void);
void api_pinned(void);
void api_peers(void);
void api_parser(void);
void api_disable(void);
void api_close(void);
void api_crossing(void);
void api_proc(void);
void api_namespaces(void);
void api_tls(void);
void api_tls_end(void);
void api_tls_ended(void);
void api_tls_error(void);
void api_new(void);
void api_lengths(void);
void api_uring(void);
void api_smc(void);
/* Only for a machine whose clock counts instructions. */
void api_clock(void);

#endif
