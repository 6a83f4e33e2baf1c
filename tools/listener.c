// SPDX-License-Identifier: GPL-2.0
#include "listener.h"

#include <errno.h>
#include <unistd.h>

static int try_to_listen(const union rds_address *address, int flags, int backlog)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	int on = 1, off = 0, error;

	if (fd < 0)
		return -1;
	/* Both kinds, independent of the system's default. */
	if (address->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !bind(fd, &address->any, rds_address_size(address)) && !listen(fd, backlog))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int listen_on(union rds_address *address, int flags, int backlog)
{
	int fd = try_to_listen(address, flags, backlog);

	if (fd >= 0 || errno != EAFNOSUPPORT || !rds_address_is_any(address))
		return fd;
	rds_address_from_ipv4(address, htonl(INADDR_ANY), htons(rds_address_port(address)));
	return try_to_listen(address, flags, backlog);
}
