// SPDX-License-Identifier: GPL-2.0
/* What the active side of rds-tools' rds-stress sends to the passive one. */
#include "rds-tools-stress.h"

#include <unistd.h>

void put(unsigned char **to, uint64_t value, unsigned int bytes)
{
	while (bytes--)
		*(*to)++ = (unsigned char)(value >> 8 * bytes);
}

uint64_t take(const unsigned char **from, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | *(*from)++;
	return value;
}

void read_all(int fd, void *to, size_t size)
{
	while (size) {
		ssize_t got = read(fd, to, size);

		if (got <= 0)
			fail("the control connection has ended early");
		to = (char *)to + got;
		size -= (size_t)got;
	}
}

void send_options(int fd)
{
	unsigned char wire[16 + 59 + 2] = "2.0.7", *at = wire + 16;

	put(&at, with.depth, 4);
	put(&at, with.request_bytes, 4);
	put(&at, with.ack_bytes, 4);
	put(&at, with.rdma_bytes, 4);
	put(&at, with.remote, 4);
	put(&at, with.local, 4);
	put(&at, with.port, 2);
	put(&at, with.tasks, 2);
	put(&at, with.seconds, 4);
	put(&at, 0, 3);
	put(&at, with.verify, 1);
	put(&at, 0, 2);
	put(&at, 1, 1); /* monitors congestion */
	put(&at, with.rdma_use_once, 1);
	put(&at, with.rdma_use_get_mr, 1);
	put(&at, with.rdma_use_fence, 1);
	put(&at, with.rdma_cache_mrs, 1);
	put(&at, 0, 2);
	put(&at, with.one_way, 1);
	put(&at, with.rdma_mode, 1);
	put(&at, with.rdma_buffers, 4);
	put(&at, 0, 8);
	put(&at, with.tos, 1);
	put(&at, 0, 1);
	if (write(fd, with.tos ? wire : wire + 16, with.tos ? sizeof(wire) : 59) < 59)
		fail("the options are not sent");
}

void read_options(int fd)
{
	unsigned char wire[59];
	const unsigned char *at = wire;

	read_all(fd, wire, sizeof(wire));
	with.depth = (uint32_t)take(&at, 4);
	with.request_bytes = (uint32_t)take(&at, 4);
	with.ack_bytes = (uint32_t)take(&at, 4);
	with.rdma_bytes = (uint32_t)take(&at, 4);
	take(&at, 4);
	with.remote = (uint32_t)take(&at, 4);
	with.port = (unsigned int)take(&at, 2);
	with.tasks = (unsigned int)take(&at, 2);
	take(&at, 4 + 3);
	with.verify = (unsigned int)take(&at, 1);
	take(&at, 3);
	with.rdma_use_once = (unsigned int)take(&at, 1);
	with.rdma_use_get_mr = (unsigned int)take(&at, 1);
	with.rdma_use_fence = (unsigned int)take(&at, 1);
	with.rdma_cache_mrs = (unsigned int)take(&at, 1);
	take(&at, 2);
	with.one_way = (unsigned int)take(&at, 1);
	with.rdma_mode = (unsigned int)take(&at, 1);
	with.rdma_buffers = (uint32_t)take(&at, 4);
	if (with.depth > MAX_DEPTH || with.tasks > MAX_TASKS || with.request_bytes > MAX_BYTES || with.ack_bytes > MAX_BYTES ||
	    with.request_bytes < HEADER || with.ack_bytes < HEADER || !with.rdma_buffers || with.rdma_buffers > 512)
		fail("depth %u, tasks %u, requests of %u and acknowledgements of %u bytes", with.depth, with.tasks,
		     with.request_bytes, with.ack_bytes);
}
