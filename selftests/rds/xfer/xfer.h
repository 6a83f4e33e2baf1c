/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The checker: the same program on two hosts exchanges messages for a while, and asserts that
 * each arrived exactly once, in order and whole, independent of network faults.
 *
 * Socket i of a host sends to sockets i and i+1 of the other; each such pair of sockets is a flow. When the time
 * is over a flow ends with an END with the number of messages, and each host reports to the other that it has
 * all of them.
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
	int seconds; /* duration of sending */
	int patience_s; /* time limit for the end */
	size_t min_size, max_size;
	int rate; /* messages a second over all flows, 0 for the maximum */
	int receive_buffer; /* of each socket, 0 for the default */
	int depth; /* messages of a flow that may be unanswered, 0 for no answers */
	bool sends, receives;
	bool lossy; /* the other host may be restarted: messages on their way to it may be lost */
	int starve; /* per cent of this machine's allocations that fail while data is sent */
	int max_gap_ms; /* limit of the time without a delivery, 0 for none */
	int max_resets; /* limit of connection resets, -1 for none */
	const char *gap_row, *once_row, *reset_row, *end_row; /* differences that a scene expects */
	uint64_t seed;
};

extern struct options opt;

enum kind { DATA = 1, ANSWER, END, DONE, HELLO };

struct head {
	uint32_t magic;
	uint32_t kind;
	uint32_t from, to; /* socket numbers */
	uint32_t life; /* of the sending program: changes with a restart */
	uint32_t len; /* of the whole message */
	uint32_t paused_ms; /* for how long the sender did not run since the flow's last message */
	uint64_t
		number; /* of a DATA; the next one of an ANSWER; the count for an END; see inbox.c for HELLO */
	uint32_t crc; /* of the fields before */
};

#define MAGIC 0x72647858

void head_seal(struct head *h);
/** fan - the number of flows from each socket */
static inline int fan(void)
{
	return opt.sockets > 1 ? 2 : 1;
}

/** message_valid - true for a whole, intact message of @n bytes */
bool message_valid(const void *message, size_t n);
/** payload_of - the bytes that follow the head of number @number */
const void *payload_of(uint64_t number, size_t len);

/* Receiving, with the checks. */
void inbox_take(const void *message, size_t n, const struct addr *from);
bool inbox_ended(void);
void inbox_report(void);

/* Sending. */
void outbox_start(void);
/** outbox_step - send one message of each flow within its limits; false when none could */
bool outbox_step(bool more_data);
bool outbox_ended(void);
void outbox_answered(const struct head *h);
uint64_t outbox_total(void);
/** outbox_refused - the number of sends without memory */
unsigned int outbox_refused(void);

/**
 * paused_ms - the total time in which this program did not run
 *
 * An emulated machine on a busy host stops at times. That is no fault, and does not count as a
 * pause in delivery on either side.
 */
uint64_t paused_ms(void);
/** post - send without waiting: 1 sent, 0 not now */
int post(uint32_t from, uint32_t to, enum kind kind, uint64_t number, size_t len, uint32_t paused);

/* Allocations that fail on purpose, on a kernel that can. */
void starve_prepare(void);
/** starve_set - make this percentage of all allocations of this machine fail */
void starve_set(int percent);

extern int sockets[MAX_SOCKETS];
extern bool peer_here, peer_knows_us, peer_done;

#endif
