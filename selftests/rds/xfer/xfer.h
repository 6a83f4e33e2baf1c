/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The checker: the same program on two hosts keeps messages going between them for a while, and asserts that
 * each arrived exactly once, in order and whole, whatever was done to the network in the meantime.
 *
 * Socket i of a host sends to sockets i and i+1 of the other; each such pair of sockets is a flow. When time
 * is up a flow ends with an END that tells how many there were, and each host tells the other that it has
 * them all.
 */
#ifndef SELFTESTS_RDS_XFER_H
#define SELFTESTS_RDS_XFER_H

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

#define MAX_SOCKETS 16
#define FIRST_PORT 6000

struct options {
	const char *own, *peer;
	int sockets;
	int seconds; /* how long data is sent */
	int patience_s; /* how long the end of it is waited for */
	size_t min_size, max_size;
	int rate; /* messages a second over all flows, 0 for as many as go */
	int receive_buffer; /* of each socket, 0 for the system's */
	int depth; /* messages of a flow that may be unanswered, 0 for no answers */
	bool sends, receives;
	bool lossy; /* the other host may be started anew: what was on its way to it may be lost */
	int starve; /* per cent of this machine's allocations that fail while data is sent */
	int max_gap_ms; /* the longest time without a delivery that is good enough, 0 for any */
	int max_resets; /* connection resets that are good enough, -1 for any */
	const char *gap_row, *once_row, *reset_row, *end_row; /* differences that a scene knows to be shown */
	uint64_t seed;
};

extern struct options opt;

enum kind { DATA = 1, ANSWER, END, DONE, HELLO };

struct head {
	uint32_t magic;
	uint32_t kind;
	uint32_t from, to; /* socket numbers */
	uint32_t life; /* of the sending program: differs when it was started anew */
	uint32_t len; /* of the whole message */
	uint32_t paused_ms; /* for how long the sender did not run since the flow's last message */
	uint64_t
		number; /* of a DATA; the next one of an ANSWER; how many for an END; see inbox.c for HELLO */
	uint32_t crc; /* of the fields before */
};

#define MAGIC 0x72647858

void head_seal(struct head *h);
/** fan - how many flows go out of each socket */
static inline int fan(void)
{
	return opt.sockets > 1 ? 2 : 1;
}

/** message_valid - is this a whole, intact message of @n bytes? */
bool message_valid(const void *message, size_t n);
/** payload_of - the bytes that follow the head of number @number */
const void *payload_of(uint64_t number, size_t len);

/* What comes in: the promise that is checked. */
void inbox_take(const void *message, size_t n, const struct addr *from);
bool inbox_ended(void);
void inbox_report(void);

/* What goes out. */
void outbox_start(void);
/** outbox_step - send one message of each flow that may; false when nothing could */
bool outbox_step(bool more_data);
bool outbox_ended(void);
void outbox_answered(const struct head *h);
uint64_t outbox_total(void);
/** outbox_refused - how often there was no memory for a message */
unsigned int outbox_refused(void);

/**
 * paused_ms - for how long, all in all, this program did not get to run
 *
 * An emulated machine on a busy host stands still at times. That is nobody's fault, and does not count as a
 * pause in delivery on either side.
 */
uint64_t paused_ms(void);
/** post - send without waiting: 1 sent, 0 not now */
int post(uint32_t from, uint32_t to, enum kind kind, uint64_t number, size_t len, uint32_t paused);

/* Allocations that fail on purpose, on a kernel that can. */
void starve_prepare(void);
/** starve_set - from now on so many per cent of all allocations of this machine fail */
void starve_set(int percent);

extern int sockets[MAX_SOCKETS];
extern bool peer_here, peer_knows_us, peer_done;

#endif
