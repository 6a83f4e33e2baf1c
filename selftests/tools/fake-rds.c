// SPDX-License-Identifier: GPL-2.0
/*
 * A library to preload that gives the RDS programs an AF_RDS without a kernel that has one: messages travel
 * over UDP, tables are invented. Options make it a bad network, because a program that
 * reports lost and doubled messages must be tested with some.
 *
 *   FAKE_RDS_DROP=n         every nth message of a process is lost, or
 *   FAKE_RDS_TWICE=n        ... comes twice
 *   FAKE_RDS_DAMAGE=n       ... has its last bit flipped
 *   FAKE_RDS_SWAP=n         ... is overtaken by the next
 *   FAKE_RDS_CONGEST=n      every nth send finds the port congested; a notification soon follows
 *   FAKE_RDS_NO_TABLE=item  the kernel has no such table
 *   FAKE_RDS_GROW=1         tables grow between two reads
 *   FAKE_RDS_COUNT=n        conn_reset is n more at each read
 *   FAKE_RDS_OPEN=1         the table of sockets has one that is opened at that moment
 *   FAKE_RDS_MODULES=folder takes the place of /sys/module
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/rds.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FD 1024

union address {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static struct fake {
	bool is_rds;
	bool is_bound;
	bool monitors;
	uint64_t cleared;		/* congestion notification to hand over */
	union address local;
	union address pinged;
	unsigned char held[65536];	/* the message to be overtaken */
	size_t held_bytes;
} fakes[MAX_FD];

static unsigned long knob(const char *name)
{
	const char *value = getenv(name);

	return value ? strtoul(value, NULL, 10) : 0;
}

/* Counts calls for each @counter; true for every nth. */
static bool every(const char *name, unsigned long *counter)
{
	unsigned long period = knob(name);

	return period && ++*counter % period == 0;
}

static socklen_t size_of(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->ipv4) : sizeof(address->ipv6);
}

static in_port_t *port_of(union address *address)
{
	return address->any.sa_family == AF_INET ? &address->ipv4.sin_port : &address->ipv6.sin6_port;
}

static bool is_fake(int fd)
{
	return fd >= 0 && fd < MAX_FD && fakes[fd].is_rds;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* @path, or where it is instead; @room has the answer. */
static const char *moved(const char *path, char room[256])
{
	static const char modules[] = "/sys/module";
	const char *instead = getenv("FAKE_RDS_MODULES");

	if (!instead || strncmp(path, modules, strlen(modules)))
		return path;
	snprintf(room, 256, "%s%s", instead, path + strlen(modules));
	return room;
}

FILE *fopen(const char *path, const char *mode)
{
	char room[256];

	return REAL(fopen)(moved(path, room), mode);
}

int access(const char *path, int mode)
{
	char room[256];

	return REAL(access)(moved(path, room), mode);
}

int socket(int family, int type, int protocol)
{
	int fd;

	if (family != AF_RDS)
		return REAL(socket)(family, type, protocol);
	fd = REAL(socket)(AF_INET6, SOCK_DGRAM | (type & SOCK_CLOEXEC), 0);
	if (fd >= 0 && fd < MAX_FD)
		fakes[fd] = (struct fake){ .is_rds = true };
	return fd;
}

int close(int fd)
{
	if (is_fake(fd))
		fakes[fd].is_rds = false;
	return REAL(close)(fd);
}

/* The family is unknown before. */
int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	int real;

	if (!is_fake(fd))
		return REAL(bind)(fd, address, size);
	real = REAL(socket)(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (real < 0 || dup2(real, fd) < 0)
		return -1;
	REAL(close)(real);
	if (REAL(bind)(fd, address, size))
		return -1;
	size = sizeof(fakes[fd].local);
	fakes[fd].is_bound = true;
	return getsockname(fd, &fakes[fd].local.any, &size);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
	if (!is_fake(fd) || level != SOL_RDS)
		return REAL(setsockopt)(fd, level, option, value, size);
	if (option == RDS_CONG_MONITOR)
		fakes[fd].monitors = *(const int *)value;
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return is_fake(fd) ? 0 : REAL(ioctl)(fd, request, argument);
}

static int table(const void *entries, size_t each, size_t count, void *value, socklen_t *size)
{
	static unsigned int grown;
	size_t total;

	/* Each read returns more entries than the last, as on a busy host. */
	if (knob("FAKE_RDS_GROW") && grown++ < 2)
		total = each * count * (grown + 1) * 100;
	else
		total = each * count;
	if (*size < total) {
		*size = (socklen_t)total;
		errno = ENOSPC;
		return -1;
	}
	memcpy(value, entries, each * count);
	*size = (socklen_t)(each * count);
	return (int)each;
}

static struct rds_info_counter counters[] = {
	{ "conn_reset", 7 },
	{ "a_name_of_thirty-two_characters_", 18446744073709551615ULL },
	{ "quote\"d", 1 },
};

static const struct rds6_info_connection six_connections[] = {
	{ 5, 6, { { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1 } } },
	  { { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2 } } }, "tcp", 4 },
	{ 9, 10, { { { 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 } } },
	  { { { 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 } } }, "tcp", 2 },
};

int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
	/* One pair of addresses: an entry for each of two paths, and another kind of service. */
	const struct rds_info_connection connections[] = {
		{ 5, 6, htonl(0x0a000001), htonl(0x0a000002), "tcp", 4, 0 },
		{ 11, 12, htonl(0x0a000001), htonl(0x0a000002), "tcp", 4, 0 },
		{ 7, 8, htonl(0x0a000001), htonl(0x0a000002), "tcp", 1, 3 },
	};
	const struct rds_info_tcp_socket sockets[] = {
		{ htonl(0x0a000001), htons(1000), htonl(0x0a000002), htons(16385), 1, 2, 3, 4, 5, 0 },
		{ htonl(0x0a000001), htons(1001), htonl(0x0a000002), htons(16385), 1, 2, 3, 4, 5, 0 },
		{ htonl(0x0a000001), htons(1002), htonl(0x0a000003), htons(16385), 1, 2, 3, 4, 5, 0 },
	};

	struct rds_info_socket own = { 1000, htonl(0x0a000001), 0, htons(4001), 0, 2000, 0 };
	struct stat status;
	int each;

	if (!is_fake(fd) || level != SOL_RDS)
		return REAL(getsockopt)(fd, level, option, value, size);
	errno = ENOPROTOOPT;
	if (knob("FAKE_RDS_NO_TABLE") == (unsigned long)option)
		return -1;
	switch (option) {
	case RDS_INFO_COUNTERS:
		each = table(counters, sizeof(counters[0]), 3, value, size);
		if (each > 0)
			counters[0].value += knob("FAKE_RDS_COUNT");
		return each;
	case RDS_INFO_CONNECTIONS:
		return table(connections, sizeof(connections[0]), 3, value, size);
	case RDS6_INFO_CONNECTIONS:
		return table(six_connections, sizeof(six_connections[0]), 2, value, size);
	case RDS_INFO_TCP_SOCKETS:
		return table(sockets, sizeof(sockets[0]), 3, value, size);
	case RDS_INFO_SOCKETS:
		/* The calling socket. */
		if (fstat(knob("FAKE_RDS_OPEN") ? REAL(socket)(AF_INET, SOCK_DGRAM, 0) : fd, &status))
			return -1;
		own.inum = status.st_ino;
		return table(&own, sizeof(own), 1, value, size);
	case RDS_INFO_SEND_MESSAGES:
		return table(connections, sizeof(struct rds_info_message), 0, value, size);
	default:
		return -1;
	}
}

/* Port 0 answers: a message to ourselves, which receiving turns into an empty one from port 0. */
static ssize_t ping(int fd, const struct msghdr *message)
{
	static unsigned long dropped, twice;
	struct fake *fake = &fakes[fd];

	memcpy(&fake->pinged, message->msg_name, message->msg_namelen);
	if (every("FAKE_RDS_DROP", &dropped))
		return 0;
	if (every("FAKE_RDS_TWICE", &twice))
		REAL(sendto)(fd, "pong", 4, 0, &fake->local.any, size_of(&fake->local));
	return REAL(sendto)(fd, "pong", 4, 0, &fake->local.any, size_of(&fake->local)) < 0 ? -1 : 0;
}

/* Sends @data, perhaps twice, and then the message that it overtakes. */
static void deliver(int fd, unsigned char *data, size_t bytes, const struct sockaddr *to, socklen_t size)
{
	static unsigned long dropped, twice, damaged, swapped;
	struct fake *fake = &fakes[fd];

	if (every("FAKE_RDS_DROP", &dropped))
		return;
	if (every("FAKE_RDS_DAMAGE", &damaged))
		data[bytes - 1] ^= 1;
	if (!fake->held_bytes && every("FAKE_RDS_SWAP", &swapped)) {
		memcpy(fake->held, data, bytes);
		fake->held_bytes = bytes;
		return;
	}
	if (every("FAKE_RDS_TWICE", &twice))
		REAL(sendto)(fd, data, bytes, 0, to, size);
	REAL(sendto)(fd, data, bytes, 0, to, size);
	if (fake->held_bytes)
		REAL(sendto)(fd, fake->held, fake->held_bytes, 0, to, size);
	fake->held_bytes = 0;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static unsigned long congested;
	unsigned char data[65536];
	size_t bytes = message->msg_iovlen ? message->msg_iov[0].iov_len : 0;

	if (!is_fake(fd))
		return REAL(sendmsg)(fd, message, flags);
	if (!*port_of(message->msg_name))
		return ping(fd, message);
	if (every("FAKE_RDS_CONGEST", &congested)) {
		if (fakes[fd].monitors)
			fakes[fd].cleared = ~UINT64_C(0);
		errno = ENOBUFS;
		return -1;
	}
	if (bytes > sizeof(data)) {
		errno = EMSGSIZE;
		return -1;
	}
	memcpy(data, message->msg_iov[0].iov_base, bytes);
	deliver(fd, data, bytes, message->msg_name, message->msg_namelen);
	return (ssize_t)bytes;
}

static ssize_t notify_cleared(struct fake *fake, struct msghdr *message)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);

	cmsg->cmsg_level = SOL_RDS;
	cmsg->cmsg_type = RDS_CMSG_CONG_UPDATE;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fake->cleared));
	memcpy(CMSG_DATA(cmsg), &fake->cleared, sizeof(fake->cleared));
	message->msg_controllen = CMSG_SPACE(sizeof(fake->cleared));
	message->msg_namelen = 0;
	fake->cleared = 0;
	return 0;
}

static bool is_same(const union address *one, const union address *other)
{
	return one->any.sa_family == other->any.sa_family && !memcmp(one, other, one->any.sa_family == AF_INET ?
		offsetof(struct sockaddr_in, sin_zero) : offsetof(struct sockaddr_in6, sin6_scope_id));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct fake *fake = &fakes[fd];
	union address *from = message->msg_name;
	ssize_t bytes;

	if (!is_fake(fd))
		return REAL(recvmsg)(fd, message, flags);
	if (fake->cleared)
		return notify_cleared(fake, message);
	bytes = REAL(recvmsg)(fd, message, flags);
	message->msg_controllen = 0;
	if (bytes < 0 || !is_same(from, &fake->local))
		return bytes;
	memcpy(from, &fake->pinged, sizeof(*from));
	message->msg_namelen = size_of(from);
	return 0;
}
