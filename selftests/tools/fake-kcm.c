// SPDX-License-Identifier: GPL-2.0
/*
 * A library to preload that gives kcm-server and kcm-client an AF_KCM that takes everything and delivers nothing, without a
 * kernel that has one. It prints each call that a knob is about.
 *
 *   FAKE_KCM_NO_IPV6=1     sockets of IPv6 cannot be opened
 *   FAKE_KCM_NO_TABLE=n    there is no memory for the table of connections, n times
 *   FAKE_KCM_NO_ACCEPT=n   there is no memory for a connection that is accepted, n times
 */
#include "../../include/uapi/hawser_kcm.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/kcm.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAMILY 41 /* AF_KCM and SOL_KCM: older C libraries lack them */
#define LEVEL 281

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long knob(const char *name)
{
	const char *value = getenv(name);

	return value ? strtol(value, NULL, 10) : 0;
}

/* True, with errno, for as many calls as the knob says. */
static bool lacks_memory(const char *name, int *calls)
{
	if (!knob(name))
		return false;
	fprintf(stderr, "%s: call %d\n", name, ++*calls);
	errno = ENOMEM;
	return *calls <= knob(name);
}

/* What is sent goes to another socket, which stays open. */
static int fake_kcm(void)
{
	int pair[2];

	return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) ? -1 : pair[0];
}

int socket(int family, int type, int protocol)
{
	if (family == FAMILY)
		return fake_kcm();
	if (family == AF_INET6 && knob("FAKE_KCM_NO_IPV6")) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	return REAL(socket)(family, type, protocol);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	static int calls;

	return lacks_memory("FAKE_KCM_NO_ACCEPT", &calls) ? -1 : REAL(accept4)(fd, address, size, flags);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
	return level == LEVEL ? 0 : REAL(setsockopt)(fd, level, option, value, size);
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
	static int calls;

	if (level != LEVEL)
		return REAL(getsockopt)(fd, level, option, value, size);
	memset(value, 0, *size);
	if (option != KCM_STATS)
		return 0;
	*size = 0;
	return lacks_memory("FAKE_KCM_NO_TABLE", &calls) ? -1 : 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request == SIOCKCMATTACH || request == SIOCKCMUNATTACH)
		return 0;
	if (request != SIOCKCMCLONE)
		return REAL(ioctl)(fd, request, argument);
	((struct kcm_clone *)argument)->fd = fake_kcm();
	return 0;
}

/* The programs use it for bpf() alone. */
long syscall(long number, ...)
{
	(void)number;
	return eventfd(0, EFD_CLOEXEC);
}
