// SPDX-License-Identifier: GPL-2.0
/* Socket types, and calls that RDS does not support. */
#include "api.h"

#include <sys/mman.h>

static void types(void)
{
	static const struct {
		int type, protocol;
		const char *name;
	} wrong[] = {
		{ SOCK_STREAM, 0, "SOCK_STREAM" },
		{ SOCK_DGRAM, 0, "SOCK_DGRAM" },
		{ SOCK_RAW, 0, "SOCK_RAW" },
		{ SOCK_RDM, 0, "SOCK_RDM" },
		{ SOCK_SEQPACKET, 1, "SOCK_SEQPACKET of protocol 1" },
	};
	int fd = socket(AF_RDS, SOCK_SEQPACKET, 0);

	EXPECT_OK(fd, "socket: SOCK_SEQPACKET of protocol 0");
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_ERRNO(socket(AF_RDS, wrong[i].type, wrong[i].protocol), ESOCKTNOSUPPORT,
			     "socket: %s is refused", wrong[i].name);
}

static void unprivileged(void)
{
	bool made = false;
	int fd = -1;

	/* Only the effective user changes, so that root can be restored. */
	if (seteuid(65534) == 0) {
		fd = socket(AF_RDS, SOCK_SEQPACKET, 0);
		made = fd >= 0;
		NEED(seteuid(0) == 0);
	}
	check(made, "socket: needs no privilege");
	close(fd);
}

static void unsupported(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0), both[2];

	EXPECT_ERRNO(listen(fd, 1), EOPNOTSUPP, "listen: not supported");
	EXPECT_ERRNO(accept(fd, NULL, NULL), EOPNOTSUPP, "accept: not supported");
	EXPECT_ERRNO(shutdown(fd, SHUT_RDWR), EOPNOTSUPP, "shutdown: not supported");
	EXPECT_ERRNO(socketpair(AF_RDS, SOCK_SEQPACKET, 0, both), EOPNOTSUPP, "socketpair: not supported");
	check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV,
	      "mmap: not supported");
	close(fd);
}

void api_create(void)
{
	types();
	unprivileged();
	unsupported();
}
