/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbered messages. A stream is the messages of one sender: a peer over its connection, or a KCM socket. They are
 * numbered within it, and length and content depend on stream and number, so that each message can be checked.
 *
 * In mixed traffic lengths differ from message to message. The kernel's own KCM cannot receive that (row message-start of
 * the differences), so there all messages have one length and the parser program is constant.
 */
#ifndef SELFTESTS_KCM_DATA_H
#define SELFTESTS_KCM_DATA_H

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "kcm.h"
#include "ktap.h"
#include "task.h"
#include "util.h"

#define MESSAGE_MAX 65536
/* With KCM_MAX_MESSAGE above the TCP socket's buffer some are as long as this. */
#define MESSAGE_LARGEST (4 * MESSAGE_MAX)
/* The number of a message that is too short for one. */
#define UNLABELLED UINT32_MAX

extern uint64_t data_seed;
extern bool data_large; /* messages beyond MESSAGE_MAX, too */

/** message_write - message @number of @stream; its length */
size_t message_write(void *buf, bool mixed, uint32_t stream, uint32_t number);
/** message_read - true if it is whole and correct; UNLABELLED ones are not unique */
bool message_read(const void *buf, ssize_t len, bool mixed, uint32_t *stream, uint32_t *number);
/** message_unlabelled - true if it is too short for a number */
bool message_unlabelled(bool mixed, uint32_t stream, uint32_t number);
/** message_parser - the program for such messages; never closed */
int message_parser(bool mixed);
/** message_kind - their name in the tests */
const char *message_kind(bool mixed);

/* Connections use TLS. */
extern bool data_tls;
/** data_link - a connection of this namespace, of the current kind */
struct link data_link(int family);

/* Received messages and their receivers; any number of threads may enter messages. */
struct ledger {
	bool mixed;
	uint32_t streams, each, receivers;
	uint8_t *seen; /* for each stream and number */
	uint32_t *next; /* for each receiver and stream, the number after the last one */
	uint32_t total, broken, doubled, misordered;
	uint32_t unlabelled, unlabelled_sent; /* received; expected */
	bool stop; /* do not wait for missing messages */
};

/** ledger_new - for @streams of @each messages and this many receivers */
struct ledger *ledger_new(bool mixed, uint32_t streams, uint32_t each, uint32_t receivers);
/** ledger_enter - records a received message; false when it is invalid */
bool ledger_enter(struct ledger *l, uint32_t receiver, const void *buf, ssize_t len);
/** ledger_over - true if everything has come, after a stop, or when time is over */
bool ledger_over(struct ledger *l);
/** ledger_whole - true if all of @stream has come */
bool ledger_whole(struct ledger *l, uint32_t stream);
/** ledger_sound - nothing broken, nothing doubled; notes faults */
bool ledger_sound(struct ledger *l);
/** ledger_complete - all messages have come, each once; notes missing ones */
bool ledger_complete(struct ledger *l);
void ledger_delete(struct ledger *l);

/* The work of one thread: a task's argument. @who is a stream for writers and a receiver for readers. */
struct worker {
	int fd;
	struct ledger *ledger;
	uint32_t who;
	struct task task;
	/* Connection ids, for a reader that separates its connections. Each is a receiver, from who * count on. */
	const uint64_t *connections;
	uint32_t connection_count;
};

/** peer_writes - a stream into a TCP connection, in writes that ignore message boundaries; returns the final error */
long peer_writes(void *worker);
/**
 * peer_gets - messages out of a TCP connection until the ledger is over or the connection is; returns the size of a
 * partial message at a FIN, which must be 0
 */
long peer_gets(void *worker);
/** kcm_writes - a stream through a KCM socket, by all ways to send */
long kcm_writes(void *worker);
/** kcm_reads - messages from a KCM socket until the ledger is over */
long kcm_reads(void *worker);

/** workers_start - one task for each */
void workers_start(struct worker *w, size_t count, long (*work)(void *worker));
void workers_join(struct worker *w, size_t count);

void data_crossing(bool mixed);
void data_churn(bool mixed);
void data_peers(bool mixed);
void data_programs(void);
void data_memory(void);
void data_storm(void);
void data_namespaces(void);
/** data_far - one end of a pair of machines; the addresses are those of the end that listens */
void data_far(bool mixed, bool listens, const char *ip4, const char *ip6);

#endif
