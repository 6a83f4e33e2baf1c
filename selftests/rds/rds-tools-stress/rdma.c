// SPDX-License-Identifier: GPL-2.0
/* Operations of RDMA, as rds-tools has them: none with the first eleven messages of a task to another. */
#include "rds-tools-stress.h"

#include <errno.h>
#include <linux/rds.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_NUMBER 11

unsigned long rdma_operations;

/* Storage of the last send's control messages. */
static char control[256];
static struct rds_iovec pieces[512];

static void *put_control(struct msghdr *header, int type, const void *data, size_t size)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)control;

	memset(control, 0, sizeof(control));
	cmsg->cmsg_level = SOL_RDS;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(cmsg), data, size);
	header->msg_control = control;
	header->msg_controllen = CMSG_SPACE(size);
	return cmsg;
}

static unsigned char *allocate(void)
{
	void *memory = mmap(NULL, (size_t)with.rdma_bytes * with.rdma_buffers, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("no memory for an operation");
	return memory;
}

/* Of the first buffer alone, by its whole words. */
static void fill(void *data, uint64_t pattern)
{
	uint64_t *word = data;
	uint32_t i;

	for (i = 0; i < with.rdma_bytes / sizeof(*word); i++)
		word[i] = pattern;
}

static void check(const void *data, uint64_t pattern, const char *what)
{
	const uint64_t *word = data;
	uint32_t i;

	for (i = 0; with.verify && i < with.rdma_bytes / sizeof(*word); i++) {
		if (word[i] != pattern)
			fail("%s: word %u is %llx and not %llx", what, i, (unsigned long long)word[i],
			     (unsigned long long)pattern);
	}
}

/* ---- Our requests ---- */

void rdma_ask(int fd, struct rdma_place *place, uint32_t number, struct rdma_fields *fields, struct msghdr *header)
{
	struct rds_get_mr_args map;

	if (!with.rdma_bytes || number < FIRST_NUMBER)
		return;
	if (!place->offered)
		place->offered = allocate();
	map = (struct rds_get_mr_args){
		.vec = { (uintptr_t)place->offered, (uint64_t)with.rdma_bytes * with.rdma_buffers },
		.cookie_addr = (uintptr_t)&place->key,
		.flags = RDS_RDMA_READWRITE | (with.rdma_use_once ? RDS_RDMA_USE_ONCE : 0),
	};
	if (with.rdma_use_get_mr && !place->key && setsockopt(fd, SOL_RDS, RDS_GET_MR, &map, sizeof(map)))
		fail("RDS_GET_MR: %s", strerror(errno));
	*fields = (struct rdma_fields){
		.operation = with.rdma_mode ? with.rdma_mode : 1 + number % 2,
		.address = (uintptr_t)place->offered,
		.pattern = (uint64_t)number << 32 | (uint32_t)getpid(),
		.key = with.rdma_use_get_mr ? place->key : 0,
		.bytes = with.rdma_bytes,
		.buffers = with.rdma_buffers,
	};
	if (with.verify)
		fill(place->offered, fields->operation == RDMA_READ ? fields->pattern : 0);
	if (fields->key)
		put_control(header, RDS_CMSG_RDMA_DEST, &place->key, sizeof(place->key));
	else
		put_control(header, RDS_CMSG_RDMA_MAP, &map, sizeof(map));
}

void rdma_asked(struct rdma_place *place, const struct rdma_fields *fields)
{
	place->asked = *fields;
	place->asked.key = fields->operation ? place->key : 0;
	if (!with.rdma_cache_mrs)
		place->key = 0;
}

static bool same(const struct rdma_fields *one, const struct rdma_fields *other)
{
	return one->operation == other->operation && one->address == other->address &&
	       one->physical_address == other->physical_address && one->pattern == other->pattern &&
	       one->key == other->key && one->bytes == other->bytes && one->buffers == other->buffers;
}

/* rds-tools looks at the key and the address, and believes the rest. */
void rdma_done(int fd, struct rdma_place *place, const struct rdma_fields *fields)
{
	struct rds_free_mr_args release = { .cookie = place->asked.key };

	if (!same(fields, &place->asked))
		fail("operation %u with key %llx, address %llx, pattern %llx of %u bytes, %u buffers: %u with %llx, %llx, %llx, "
		     "%u, %u was asked for", fields->operation, (unsigned long long)fields->key,
		     (unsigned long long)fields->address, (unsigned long long)fields->pattern, fields->bytes, fields->buffers,
		     place->asked.operation, (unsigned long long)place->asked.key, (unsigned long long)place->asked.address,
		     (unsigned long long)place->asked.pattern, place->asked.bytes, place->asked.buffers);
	if (!fields->operation)
		return;
	if (fields->operation == RDMA_WRITE)
		check(place->offered, fields->pattern, "what the peer wrote");
	if (!with.rdma_use_once && !with.rdma_cache_mrs && setsockopt(fd, SOL_RDS, RDS_FREE_MR, &release, sizeof(release)))
		fail("RDS_FREE_MR: %s", strerror(errno));
}

/* ---- The peer's ---- */

void rdma_take(struct rdma_place *place, const struct rdma_fields *fields, uint64_t key)
{
	place->served = *fields;
	if (key)
		place->served.key = key;
	if (!place->served.key) {
		if (with.rdma_bytes || fields->operation)
			fail("a request for operation %u has no key", fields->operation);
		return;
	}
	if (fields->bytes != with.rdma_bytes || fields->buffers != with.rdma_buffers ||
	    (fields->operation != RDMA_READ && fields->operation != RDMA_WRITE))
		fail("a request for operation %u of %u bytes, %u buffers", fields->operation, fields->bytes, fields->buffers);
}

bool rdma_serve(struct rdma_place *place, struct msghdr *header)
{
	bool writes = place->served.operation == RDMA_WRITE;
	uint64_t bytes = (uint64_t)with.rdma_bytes * with.rdma_buffers;
	struct rds_rdma_args args = {
		.cookie = place->served.key,
		.remote_vec = { place->served.physical_address, bytes },
		.local_vec_addr = (uintptr_t)pieces,
		.nr_local = with.rdma_buffers,
		.flags = RDS_RDMA_NOTIFY_ME | (writes ? RDS_RDMA_READWRITE : with.rdma_use_fence ? RDS_RDMA_FENCE : 0),
		.user_token = (uintptr_t)place,
	};
	uint32_t i;

	if (!place->served.operation)
		return true;
	if (place->running.operation)
		return false;
	if (!place->local)
		place->local = allocate();
	for (i = 0; i < with.rdma_buffers; i++)
		pieces[i] = (struct rds_iovec){ (uintptr_t)place->local + (uint64_t)i * with.rdma_bytes, with.rdma_bytes };
	if (writes && with.verify)
		fill(place->local, place->served.pattern);
	put_control(header, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	return true;
}

void rdma_served(struct rdma_place *place)
{
	if (place->served.operation)
		place->running = place->served;
}

void rdma_completed(uint64_t token, int status)
{
	struct rdma_place *place = (struct rdma_place *)(uintptr_t)token;

	if (!place->running.operation)
		fail("an operation has ended twice");
	if (status && !run_is_over())
		fail("operation %u with key %llx has ended with status %d", place->running.operation,
		     (unsigned long long)place->running.key, status);
	if (place->running.operation == RDMA_READ && !status)
		check(place->local, place->running.pattern, "what the peer offered");
	place->running.operation = RDMA_NONE;
	rdma_operations += !status;
}

uint64_t rdma_take_control(struct msghdr *header)
{
	struct rds_rdma_notify ended;
	struct cmsghdr *cmsg;
	uint64_t key = 0;

	for (cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		if (cmsg->cmsg_type == RDS_CMSG_RDMA_DEST)
			memcpy(&key, CMSG_DATA(cmsg), sizeof(key));
		if (cmsg->cmsg_type != RDS_CMSG_RDMA_STATUS)
			continue;
		memcpy(&ended, CMSG_DATA(cmsg), sizeof(ended));
		rdma_completed(ended.user_token, ended.status);
	}
	return key;
}
