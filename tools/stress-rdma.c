// SPDX-License-Identifier: GPL-2.0
#include "stress-rdma.h"

#include "program.h"
#include "stress-foreign.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PAGE 4096u
/* By then the end of the other side is known. */
#define END_IS_KNOWN_NS (2 * NS_PER_SECOND)

/* A place in the queue of one peer: memory offered with our request, and memory used for the peer's. */
struct place {
	unsigned char *offered;
	rds_rdma_cookie_t cookie;	/* the key of @offered, while it is registered */
	bool registered;
	unsigned char *local;
	bool busy;			/* an operation on @local is under way */
	struct stress_header served;	/* the request that it belongs to */
};

struct stress_rdma {
	const struct stress_options *options;
	int fd;
	size_t bytes;			/* in one operation, over all its buffers */
	size_t place_count;
	size_t busy_count;
	uint64_t unsure_count, unsure_ns;	/* operations that failed, maybe by the other side's end, and since when */
	struct place *places;
	/* Storage for the last extras' pointers. */
	struct rds_get_mr_args map;
	struct rds_rdma_args args;
	struct rds_iovec *vectors;
};

struct stress_rdma *stress_rdma_create(const struct stress_options *options, int fd)
{
	struct stress_rdma *rdma = calloc(1, sizeof(*rdma));
	size_t stride, i;
	unsigned char *memory;

	if (!rdma)
		die("out of memory");
	rdma->options = options;
	rdma->fd = fd;
	rdma->bytes = options->rdma_bytes * options->rdma_buffers;
	rdma->place_count = options->tasks * options->depth;
	rdma->places = calloc(rdma->place_count, sizeof(*rdma->places));
	rdma->vectors = calloc(options->rdma_buffers, sizeof(*rdma->vectors));
	stride = (rdma->bytes + options->rdma_alignment + PAGE - 1) / PAGE * PAGE;
	memory = mmap(NULL, 2 * stride * rdma->place_count, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!rdma->places || !rdma->vectors || memory == MAP_FAILED)
		die("no memory for %zu RDMA buffers of %zu bytes", 2 * rdma->place_count, rdma->bytes);
	for (i = 0; i < rdma->place_count; i++) {
		rdma->places[i].offered = memory + 2 * i * stride + options->rdma_alignment;
		rdma->places[i].local = memory + (2 * i + 1) * stride + options->rdma_alignment;
	}
	return rdma;
}

static struct place *place_of(struct stress_rdma *rdma, unsigned int peer, uint64_t sequence)
{
	return &rdma->places[peer * rdma->options->depth + sequence % rdma->options->depth];
}

static enum stress_rdma_operation choose_operation(const struct stress_rdma *rdma, uint64_t sequence)
{
	switch (rdma->options->rdma_mode) {
	case STRESS_RDMA_READ_ONLY:
		return STRESS_RDMA_READ;
	case STRESS_RDMA_WRITE_ONLY:
		return STRESS_RDMA_WRITE;
	default:
		return sequence % 2 ? STRESS_RDMA_WRITE : STRESS_RDMA_READ;
	}
}

/* The data of an operation differ from those of its message. */
static uint64_t data_seed(const struct stress_header *request)
{
	return ~stress_pattern_seed(request);
}

/* With the rds-stress of rds-tools a request has the pattern with it, and its first buffer alone has that. */
static void fill(const struct stress_rdma *rdma, const struct stress_header *request, unsigned char *data)
{
	if (rdma->options->foreign)
		stress_foreign_fill_rdma(request->rdma_pattern, data, rdma->options->rdma_bytes);
	else
		stress_pattern_fill(data_seed(request), data, rdma->bytes);
}

static bool is_filled(const struct stress_rdma *rdma, const struct stress_header *request, const unsigned char *data)
{
	if (rdma->options->foreign)
		return stress_foreign_check_rdma(request->rdma_pattern, data, rdma->options->rdma_bytes);
	return stress_pattern_check(data_seed(request), data, rdma->bytes) == rdma->bytes;
}

/* For this peer: RDS_GET_MR takes the one of the socket's last message, and there was none yet. */
static int register_for(struct stress_rdma *rdma, unsigned int peer)
{
	union rds_address to = rdma->options->remote;
	struct rds_get_mr_for_dest_args args = {
		.vec = rdma->map.vec, .cookie_addr = rdma->map.cookie_addr, .flags = rdma->map.flags,
	};

	rds_address_set_port(&to, stress_task_port(rdma->options, true, peer));
	memcpy(&args.dest_addr, &to, sizeof(to));
	if (!setsockopt(rdma->fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &args, sizeof(args)))
		return 0;
	/* Mainline kernels cannot on current devices: they register memory for a connection only. */
	if (errno == EOPNOTSUPP)
		die("this kernel refuses RDS_GET_MR_FOR_DEST; try without --rdma-use-get-mr");
	return -errno;
}

static int register_memory(struct stress_rdma *rdma, unsigned int peer, struct place *place, struct rds_send_extras *extras)
{
	int error;

	rdma->map = (struct rds_get_mr_args){
		.vec = { .addr = (uintptr_t)place->offered, .bytes = rdma->bytes },
		.cookie_addr = (uintptr_t)&place->cookie,
		.flags = RDS_RDMA_READWRITE | (rdma->options->rdma_use_once ? RDS_RDMA_USE_ONCE : 0),
	};
	if (!rdma->options->rdma_use_get_mr) {
		extras->map = &rdma->map;
		return 0;
	}
	error = register_for(rdma, peer);
	if (!error)
		extras->rdma_destination = &place->cookie;
	return error;
}

int stress_rdma_offer(struct stress_rdma *rdma, unsigned int peer, struct stress_header *header,
		      struct rds_send_extras *extras)
{
	struct place *place = place_of(rdma, peer, header->sequence);
	int error = 0;

	header->rdma_operation = choose_operation(rdma, header->sequence);
	header->rdma_bytes = (uint32_t)rdma->bytes;
	header->rdma_pattern = data_seed(header);
	if (rdma->options->verify && header->rdma_operation == STRESS_RDMA_READ)
		fill(rdma, header, place->offered);
	if (place->registered)
		/* Kept from an earlier request, or from a failed attempt. */
		extras->rdma_destination = &place->cookie;
	else
		error = register_memory(rdma, peer, place, extras);
	/* Memory offered with the message is registered only if that is sent. */
	if (!error && extras->rdma_destination) {
		place->registered = true;
		header->rdma_key = place->cookie;
	}
	return error;
}

/* The request that @header acknowledges. */
static struct stress_header request_of(const struct stress_header *header)
{
	struct stress_header request = *header;

	request.kind = STRESS_REQUEST;
	request.from_task = header->to_task;
	request.to_task = header->from_task;
	request.rdma_pattern = data_seed(&request);
	return request;
}

void stress_rdma_take_back(struct stress_rdma *rdma, unsigned int peer, const struct stress_header *header,
			   struct stress_counts *counts)
{
	struct place *place = place_of(rdma, peer, header->sequence);
	struct rds_free_mr_args release = { .cookie = place->cookie };
	struct stress_header request = request_of(header);

	if (header->rdma_operation != choose_operation(rdma, header->sequence) ||
	    (rdma->options->foreign && (header->rdma_key != place->cookie || header->rdma_pattern != request.rdma_pattern))) {
		counts->rdma_failed++;
		warn("the other side acknowledges another RDMA operation (request %" PRIu64 ")", header->sequence);
	} else if (rdma->options->verify && header->rdma_operation == STRESS_RDMA_WRITE &&
		   !is_filled(rdma, &request, place->offered)) {
		counts->corrupted++;
		warn("an RDMA write brought damaged data (request %" PRIu64 ")", header->sequence);
	}
	place->registered = rdma->options->rdma_cache_mrs;
	if (place->registered || rdma->options->rdma_use_once)
		return;
	if (setsockopt(rdma->fd, SOL_RDS, RDS_FREE_MR, &release, sizeof(release))) {
		counts->rdma_failed++;
		warn("releasing RDMA memory: %s", strerror(errno));
	}
}

int stress_rdma_serve(struct stress_rdma *rdma, unsigned int peer, const struct stress_header *request,
		      rds_rdma_cookie_t cookie, struct rds_send_extras *extras)
{
	struct place *place = place_of(rdma, peer, request->sequence);
	bool write = request->rdma_operation == STRESS_RDMA_WRITE;
	size_t i;

	if (place->busy)
		return -EBUSY;
	if (write && rdma->options->verify)
		fill(rdma, request, place->local);
	for (i = 0; i < rdma->options->rdma_buffers; i++) {
		rdma->vectors[i].addr = (uintptr_t)(place->local + i * rdma->options->rdma_bytes);
		rdma->vectors[i].bytes = rdma->options->rdma_bytes;
	}
	rdma->args = (struct rds_rdma_args){
		.cookie = cookie,
		.remote_vec = { .addr = 0, .bytes = rdma->bytes },
		.local_vec_addr = (uintptr_t)rdma->vectors,
		.nr_local = rdma->options->rdma_buffers,
		.flags = RDS_RDMA_NOTIFY_ME | (write ? RDS_RDMA_READWRITE : 0) |
			 (!write && rdma->options->rdma_use_fence ? RDS_RDMA_FENCE : 0),
		.user_token = (uint64_t)(place - rdma->places),
	};
	extras->rdma = &rdma->args;
	return 0;
}

void stress_rdma_started(struct stress_rdma *rdma, unsigned int peer, const struct stress_header *request)
{
	struct place *place = place_of(rdma, peer, request->sequence);

	place->busy = true;
	place->served = *request;
	rdma->busy_count++;
}

/* The active one of rds-tools ends without a word, and with its memory what is under way. */
static void operation_failed(struct stress_rdma *rdma, int status, struct stress_counts *counts)
{
	if (rdma->options->foreign && !rdma->options->active) {
		if (!rdma->unsure_count++)
			rdma->unsure_ns = now_ns();
		return;
	}
	counts->rdma_failed++;
	warn("an RDMA operation failed with status %d", status);
}

void stress_rdma_end(struct stress_rdma *rdma, struct stress_counts *counts)
{
	if (!rdma->unsure_count || now_ns() - rdma->unsure_ns < END_IS_KNOWN_NS)
		return;
	counts->rdma_failed += rdma->unsure_count;
	warn("%" PRIu64 " RDMA operations failed", rdma->unsure_count);
}

void stress_rdma_completed(struct stress_rdma *rdma, const struct rds_rdma_notify *notification,
			   struct stress_counts *counts)
{
	struct place *place;

	if (notification->user_token >= rdma->place_count || !rdma->places[notification->user_token].busy) {
		counts->rdma_failed++;
		warn("the kernel reports the end of an RDMA operation that was not started");
		return;
	}
	place = &rdma->places[notification->user_token];
	place->busy = false;
	rdma->busy_count--;
	if (notification->status != RDS_RDMA_SUCCESS) {
		operation_failed(rdma, notification->status, counts);
		return;
	}
	if (place->served.rdma_operation == STRESS_RDMA_WRITE) {
		counts->rdma_bytes_out += rdma->bytes;
		return;
	}
	counts->rdma_bytes_in += rdma->bytes;
	if (rdma->options->verify && !is_filled(rdma, &place->served, place->local)) {
		counts->corrupted++;
		warn("an RDMA read brought damaged data (request %" PRIu64 ")", place->served.sequence);
	}
}

bool stress_rdma_busy(const struct stress_rdma *rdma)
{
	return rdma->busy_count > 0;
}
