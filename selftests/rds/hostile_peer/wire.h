/* SPDX-License-Identifier: GPL-2.0 */
/* The other end of RDS over TCP as raw bytes, to port 16385 of the victim. */
#ifndef SELFTESTS_RDS_WIRE_H
#define SELFTESTS_RDS_WIRE_H

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

struct wire_header {
	uint64_t sequence;
	uint64_t ack;
	uint32_t length;
	uint16_t sport, dport;
	uint8_t flags, credit, padding[4];
	uint16_t checksum;
	uint8_t extensions[16];
} __attribute__((packed));

#define CONGESTION_MAP 0x01
#define RETRANSMITTED 0x04
#define EXTENDED 0x20
#define MAP_BYTES 8192

/*
 * The attacker has the smaller address, so that the victim takes its connections; the honest host is joined
 * to the victim by a link of its own.
 */
struct scene {
	int attacker, victim, honest;
	int honest_fd, victim_fd; /* RDS sockets of the honest flow */
	struct addr honest_to; /* the address of victim_fd */
	uint64_t sequence; /* continues on the next connection, as a peer's does */
};

#define ATTACKER "10.77.0.1"
#define VICTIM "10.77.0.2"
#define HONEST "10.79.0.1"
#define VICTIM_TOO "10.79.0.2"

extern struct scene scene;

void scene_open(void);
/** honest_works - true if the honest host still reaches the victim, without delay */
bool honest_works(void);

/** wire_open - a connection that the victim has accepted as its peer's: it has begun to send on it */
int wire_open(void);
/** wire_header - a header from port 77 to @dport with the next sequence number */
struct wire_header wire_header(uint16_t dport, uint32_t length);
/** wire_write - writes all; false when the connection ends or makes no progress for @ms */
bool wire_write(int fd, const void *data, size_t len, int ms);
/** wire_message - a header and its payload */
bool wire_message(int fd, const struct wire_header *h, const void *payload);
/** wire_closed - true if the victim closes or resets the connection within @ms; discards its data */
bool wire_closed(int fd, int ms);
/** wire_find - the victim's next header with these ports, within SOON_MS */
bool wire_find(int fd, uint16_t sport, uint16_t dport, struct wire_header *h);
/** wire_reset - end a connection with a reset */
void wire_reset(int fd);

void attack_framing(void);
void attack_lengths(void);
void attack_maps(void);
void attack_extensions(void);
void attack_sequences(void);
void attack_ports(void);
void attack_crowds(void);
void attack_floods(void);

#endif
