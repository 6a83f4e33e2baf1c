// SPDX-License-Identifier: GPL-2.0
//
// Frames of the lab's agent, over its port and its socket.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"

void die(const char *what)
{
	fprintf(stderr, "lab agent: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void write_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t n = write(fd, at, length);

		// A scene may make allocations fail, the agent's too.
		if (n < 0 && (errno == EINTR || errno == ENOMEM))
			continue;
		if (n < 0)
			die("write");
		at += n;
		length -= n;
	}
}

// Returns false at the end of the stream.
static bool read_all(int fd, void *data, size_t length)
{
	char *at = data;

	while (length) {
		ssize_t n = read(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		length -= n;
	}
	return true;
}

void send_frame(int fd, const char *verb, unsigned int id, const void *payload, size_t length)
{
	static char frame[PAYLOAD_MAX + 64];
	int head = snprintf(frame, 64, "%s %u %zu\n", verb, id, length);

	memcpy(frame + head, payload, length);
	write_all(fd, frame, head + length);
}

bool receive_frame(int fd, struct frame *frame)
{
	char head[64];
	size_t n = 0;

	do {
		if (n == sizeof(head) - 1 || !read_all(fd, head + n, 1))
			return false;
	} while (head[n++] != '\n');
	head[n] = 0;
	if (sscanf(head, "%15s %u %zu", frame->verb, &frame->id, &frame->length) != 3)
		return false;
	if (frame->length > PAYLOAD_MAX || !read_all(fd, frame->payload, frame->length))
		return false;
	frame->payload[frame->length] = 0;
	return true;
}
