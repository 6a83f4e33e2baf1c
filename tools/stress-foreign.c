// SPDX-License-Identifier: GPL-2.0
#include "stress-foreign.h"

#include "program.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Time limit for the options, and for the other side's tasks to be ready, which it looks at once a second each. */
#define OPTIONS_MS 10000
#define READY_MS 60000

/* Big-endian, without holes; so the header below. */
struct wire_options {
	uint32_t depth;
	uint32_t request_bytes;
	uint32_t ack_bytes;
	uint32_t rdma_bytes;
	uint32_t to_address;
	uint32_t from_address;
	uint16_t port;
	uint16_t tasks;
	uint32_t run_seconds;
	uint8_t summary_only;
	uint8_t realtime;
	uint8_t trace;
	uint8_t verify;
	uint8_t show_parameters;
	uint8_t show_perfdata;
	uint8_t congestion_monitor;
	uint8_t rdma_use_once;
	uint8_t rdma_use_get_mr;
	uint8_t rdma_use_fence;
	uint8_t rdma_cache_mrs;
	uint8_t rdma_key_o_meter;
	uint8_t suppress_warnings;
	uint8_t one_way;
	uint8_t rdma_mode;
	uint32_t rdma_buffers;
	uint32_t rdma_alignment;
	uint32_t connect_retries;
} __attribute__((packed));

/* From 2.0.7 on, if there is a type of service or a message is sent again after an error; else they have neither. */
#define VERSION_SIZE 16
struct wire_more_options {
	uint8_t tos;
	uint8_t sends_again;
};

struct wire_header {
	uint32_t number;
	uint32_t from_address;
	uint32_t to_address;
	uint16_t from_port;
	uint16_t to_port;
	uint16_t place;
	uint8_t kind;
	uint8_t rdma_operation;
	uint64_t rdma_address;
	uint64_t rdma_physical_address;
	uint64_t rdma_pattern;
	uint64_t rdma_key;
	uint32_t rdma_bytes;
	uint32_t rdma_buffers;
	uint8_t is_repeated;
	uint8_t state[2];		/* the sender's own */
} __attribute__((packed));

_Static_assert(sizeof(struct wire_options) == 59, "the options have the size that rds-tools has");
_Static_assert(sizeof(struct wire_header) == STRESS_FOREIGN_HEADER_SIZE, "the header has, too");

static void send_all(struct stress_control *control, const void *bytes, size_t size)
{
	while (size) {
		ssize_t sent = send(control->fd, bytes, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			die("the other side is gone: %s", strerror(errno));
		bytes = (const char *)bytes + sent;
		size -= (size_t)sent;
	}
}

static void receive_all(struct stress_control *control, void *bytes, size_t size, int timeout_ms)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * NS_PER_MS;

	while (size) {
		struct pollfd polled = { .fd = control->fd, .events = POLLIN };
		uint64_t now = now_ns();
		ssize_t got;

		if (now >= deadline)
			die("the other side does not answer");
		if (poll(&polled, 1, (int)((deadline - now) / NS_PER_MS) + 1) <= 0)
			continue;
		got = recv(control->fd, bytes, size, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			die("the other side is gone: %s", strerror(errno));
		if (!got)
			die("the other side closed the control connection");
		bytes = (char *)bytes + got;
		size -= (size_t)got;
	}
}

/* ---- Options ---- */

static uint32_t ipv4_of(const union rds_address *address)
{
	if (address->any.sa_family != AF_INET)
		die("the other side is the rds-stress of rds-tools, which knows IPv4 alone");
	return ntohl(address->ipv4.sin_addr.s_addr);
}

static uint64_t at_least(uint64_t value, uint64_t least)
{
	return value < least ? least : value;
}

void stress_foreign_send_options(struct stress_control *control, struct stress_options *options)
{
	struct wire_options wire = { 0 };

	if (options->tos)
		die("the other side is the rds-stress of rds-tools, which takes a type of service from its own version alone");
	options->request_bytes = at_least(options->request_bytes, STRESS_FOREIGN_HEADER_SIZE);
	options->ack_bytes = at_least(options->ack_bytes, STRESS_FOREIGN_HEADER_SIZE);
	wire.depth = htobe32((uint32_t)options->depth);
	wire.request_bytes = htobe32((uint32_t)options->request_bytes);
	wire.ack_bytes = htobe32((uint32_t)options->ack_bytes);
	wire.to_address = htobe32(ipv4_of(&options->remote));
	wire.from_address = htobe32(ipv4_of(&options->local));
	wire.port = htobe16((uint16_t)options->port);
	wire.tasks = htobe16((uint16_t)options->tasks);
	wire.run_seconds = htobe32((uint32_t)options->run_seconds);
	wire.verify = (uint8_t)options->verify;
	wire.congestion_monitor = (uint8_t)options->congestion_monitor;
	wire.one_way = (uint8_t)options->one_way;
	wire.rdma_bytes = htobe32((uint32_t)options->rdma_bytes);
	wire.rdma_buffers = htobe32((uint32_t)options->rdma_buffers);
	wire.rdma_mode = (uint8_t)options->rdma_mode;
	wire.rdma_use_once = (uint8_t)options->rdma_use_once;
	wire.rdma_use_get_mr = (uint8_t)options->rdma_use_get_mr;
	wire.rdma_use_fence = (uint8_t)options->rdma_use_fence;
	wire.rdma_cache_mrs = (uint8_t)options->rdma_cache_mrs;
	wire.rdma_alignment = htobe32((uint32_t)options->rdma_alignment);
	send_all(control, &wire, sizeof(wire));
}

static void apply(struct stress_options *options, const char *name, uint64_t value)
{
	if (!stress_options_set_shared(options, name, value))
		die("the other side, the rds-stress of rds-tools, wants --%s %llu, which is not possible", name,
		    (unsigned long long)value);
}

static void apply_rdma(struct stress_options *options, const struct wire_options *wire)
{
	if (!wire->rdma_bytes)
		return;
	apply(options, "rdma-bytes", be32toh(wire->rdma_bytes));
	apply(options, "rdma-buffers", be32toh(wire->rdma_buffers));
	apply(options, "rdma-mode", wire->rdma_mode);
	apply(options, "rdma-use-once", !!wire->rdma_use_once);
	apply(options, "rdma-use-get-mr", !!wire->rdma_use_get_mr);
	apply(options, "rdma-use-fence", !!wire->rdma_use_fence);
	apply(options, "rdma-cache-mrs", !!wire->rdma_cache_mrs);
	apply(options, "rdma-alignment", be32toh(wire->rdma_alignment));
}

void stress_foreign_take_options(struct stress_control *control, struct stress_options *options)
{
	struct wire_more_options more = { 0 };
	struct wire_options wire;
	const char *problem;
	char first;

	ipv4_of(&options->local);
	/* A depth of less than 16 million begins with 0, a version with a digit. */
	receive_all(control, &first, 1, OPTIONS_MS);
	if (first) {
		char rest[VERSION_SIZE - 1];

		receive_all(control, rest, sizeof(rest), OPTIONS_MS);
		receive_all(control, &wire, sizeof(wire), OPTIONS_MS);
		receive_all(control, &more, sizeof(more), OPTIONS_MS);
	} else {
		memcpy(&wire, &first, 1);
		receive_all(control, (char *)&wire + 1, sizeof(wire) - 1, OPTIONS_MS);
	}
	if (be32toh(wire.request_bytes) < STRESS_FOREIGN_HEADER_SIZE || be32toh(wire.ack_bytes) < STRESS_FOREIGN_HEADER_SIZE)
		die("the other side, the rds-stress of rds-tools, wants messages below %d bytes", STRESS_FOREIGN_HEADER_SIZE);
	/* The address of its sockets, which need not be that of the connection. */
	rds_address_from_ipv4(&options->remote, wire.from_address, 0);
	apply(options, "depth", be32toh(wire.depth));
	apply(options, "req-bytes", be32toh(wire.request_bytes));
	apply(options, "ack-bytes", be32toh(wire.ack_bytes));
	apply(options, "port", be16toh(wire.port));
	apply(options, "tasks", be16toh(wire.tasks));
	apply(options, "tos", more.tos);
	apply(options, "verify", !!wire.verify);
	apply(options, "use-cong-monitor", !!wire.congestion_monitor);
	apply(options, "one-way", !!wire.one_way);
	apply_rdma(options, &wire);
	problem = stress_options_problem(options);
	if (problem)
		die("%s", problem);
}

/* ---- Start and end ---- */

void stress_foreign_start(struct stress_control *control, const struct stress_options *options)
{
	char byte = 0;

	if (options->active)
		send_all(control, &byte, 1);
	receive_all(control, &byte, 1, READY_MS);
	if (!options->active)
		send_all(control, &byte, 1);
}

bool stress_foreign_has_ended(struct stress_control *control, int timeout_ms)
{
	struct pollfd polled = { .fd = control->fd, .events = POLLIN };

	return poll(&polled, 1, timeout_ms) > 0;
}

/* ---- Messages ---- */

void stress_foreign_write(const struct stress_options *options, const struct peer *peer, const struct stress_header *header,
			  void *message)
{
	struct wire_header wire = {
		.number = htobe32(peer->foreign_sent),
		.from_address = options->local.ipv4.sin_addr.s_addr,
		.to_address = options->remote.ipv4.sin_addr.s_addr,
		.from_port = htobe16(stress_task_port(options, false, header->from_task)),
		.to_port = htobe16(stress_task_port(options, true, header->to_task)),
		.place = htobe16((uint16_t)(header->sequence % options->depth)),
		.kind = header->kind,
	};

	if (header->rdma_operation != STRESS_RDMA_NONE) {
		wire.rdma_operation = header->rdma_operation;
		wire.rdma_address = htobe64(header->rdma_address);
		wire.rdma_pattern = htobe64(header->rdma_pattern);
		wire.rdma_key = htobe64(header->rdma_key);
		wire.rdma_bytes = htobe32((uint32_t)options->rdma_bytes);
		wire.rdma_buffers = htobe32((uint32_t)options->rdma_buffers);
	}
	memcpy(message, &wire, sizeof(wire));
}

void stress_foreign_sent(const struct stress_options *options, struct peer *peer, const struct stress_header *header)
{
	peer->foreign_sent++;
	if (header->kind == STRESS_REQUEST)
		peer->foreign_sent_ns[header->sequence % options->depth] = header->sent_ns;
}

/* A task by the port of its socket. Those of all are one after the other. */
static uint16_t task_at(const struct stress_options *options, bool of_remote, uint16_t port)
{
	return (uint16_t)(be16toh(port) - stress_task_port(options, of_remote, 0));
}

/* An operation of RDMA is of the size that the options have. The first requests have none. */
static bool rdma_is_valid(const struct stress_options *options, const struct wire_header *wire)
{
	if (wire->rdma_operation == STRESS_RDMA_NONE)
		return true;
	return options->rdma_bytes && wire->rdma_operation <= STRESS_RDMA_WRITE && !wire->rdma_physical_address &&
	       be32toh(wire->rdma_bytes) == options->rdma_bytes && be32toh(wire->rdma_buffers) == options->rdma_buffers;
}

bool stress_foreign_read(const struct stress_options *options, struct stress_header *header, const void *message, size_t bytes,
			 uint32_t *number, uint16_t *place)
{
	struct wire_header wire;

	if (bytes < sizeof(wire))
		return false;
	memcpy(&wire, message, sizeof(wire));
	*number = be32toh(wire.number);
	*place = be16toh(wire.place);
	*header = (struct stress_header){
		.run_id = (uint32_t)options->run_id,
		.kind = wire.kind,
		.from_task = task_at(options, true, wire.from_port),
		.to_task = task_at(options, false, wire.to_port),
		.length = (uint32_t)bytes,
		.rdma_operation = wire.rdma_operation,
		.rdma_key = be64toh(wire.rdma_key),
		.rdma_address = be64toh(wire.rdma_address),
		.rdma_pattern = be64toh(wire.rdma_pattern),
	};
	return (header->kind == STRESS_REQUEST || header->kind == STRESS_ACK) && rdma_is_valid(options, &wire) &&
	       header->from_task < options->tasks && *place < options->depth &&
	       wire.from_address == options->remote.ipv4.sin_addr.s_addr &&
	       wire.to_address == options->local.ipv4.sin_addr.s_addr;
}

static unsigned char after(unsigned char byte, size_t index)
{
	return (unsigned char)(41 * (byte + 3) + (index >> 8));
}

void stress_foreign_fill(void *data, size_t bytes)
{
	unsigned char *next = data, byte = 11;
	size_t i;

	for (i = 0; i < bytes; i++, byte = after(byte, i))
		next[i] = byte;
}

size_t stress_foreign_check(const void *data, size_t bytes)
{
	const unsigned char *next = data;
	unsigned char byte = 11;
	size_t i;

	for (i = 0; i < bytes && next[i] == byte; i++)
		byte = after(byte, i + 1);
	return i;
}

/* In the order of this host's bytes, as there. */
void stress_foreign_fill_rdma(uint64_t pattern, void *data, size_t bytes)
{
	unsigned char *next = data;
	size_t i;

	for (i = 0; i < bytes; i++)
		next[i] = ((const unsigned char *)&pattern)[i % sizeof(pattern)];
}

bool stress_foreign_check_rdma(uint64_t pattern, const void *data, size_t bytes)
{
	const unsigned char *next = data;
	size_t i;

	for (i = 0; i < bytes; i++) {
		if (next[i] != ((const unsigned char *)&pattern)[i % sizeof(pattern)])
			return false;
	}
	return true;
}
