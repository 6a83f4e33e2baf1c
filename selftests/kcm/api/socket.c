// SPDX-License-Identifier: GPL-2.0
/* Socket types, and calls that KCM does not support. */
#include "api.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

void api_before_loading(void)
{
	int fd = -1, error = 0;

	NEED(access("/sys/module/kcm", F_OK) != 0);
	NEED(seteuid(65534) == 0);
	fd = socket(AF_KCM, SOCK_DGRAM, KCMPROTO_CONNECTED);
	error = errno;
	NEED(seteuid(0) == 0);
	differs(fd < 0 && error == EAFNOSUPPORT, "no-module-load",
		"socket: loads no module without privilege");
	close(fd);
}

static void kinds(void)
{
	static const int refused[] = { SOCK_STREAM, SOCK_RAW, SOCK_RDM };

	for (size_t i = 0; i < TYPES; i++) {
		int fd = socket(AF_KCM, types[i].value, KCMPROTO_CONNECTED);

		EXPECT_OK(fd, "socket: %s", types[i].name);
		check(!(fcntl(fd, F_GETFL) & O_NONBLOCK) && !(fcntl(fd, F_GETFD) & FD_CLOEXEC),
		      "socket: %s waits, and is kept over exec", types[i].name);
		close(fd);
		fd = socket(AF_KCM, types[i].value | SOCK_NONBLOCK | SOCK_CLOEXEC, KCMPROTO_CONNECTED);
		check(fd >= 0 && fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC,
		      "socket: %s with SOCK_NONBLOCK and SOCK_CLOEXEC", types[i].name);
		close(fd);
		EXPECT_ERRNO(socket(AF_KCM, types[i].value, 1), EPROTONOSUPPORT, "socket: %s of protocol 1",
			     types[i].name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		EXPECT_ERRNO(socket(AF_KCM, refused[i], KCMPROTO_CONNECTED), ESOCKTNOSUPPORT,
			     "socket: type %d is refused", refused[i]);
}

static void unprivileged(void)
{
	int fd;

	/* Only the effective user changes, so that root can be restored. */
	NEED(seteuid(65534) == 0);
	fd = socket(AF_KCM, SOCK_DGRAM, KCMPROTO_CONNECTED);
	NEED(seteuid(0) == 0);
	check(fd >= 0, "socket: needs no privilege");
	close(fd);
}

static void unsupported(const struct type *type)
{
	int fd = kcm_socket(HERE, type->value), both[2];
	struct addr any = addr("127.0.0.1", 4000);

	EXPECT_ERRNO(socketpair(AF_KCM, type->value, KCMPROTO_CONNECTED, both), EOPNOTSUPP, "socketpair: %s",
		     type->name);
	EXPECT_ERRNO(bind(fd, &any.sa, any.len), EOPNOTSUPP, "bind: %s", type->name);
	EXPECT_ERRNO(connect(fd, &any.sa, any.len), EOPNOTSUPP, "connect: %s", type->name);
	EXPECT_ERRNO(listen(fd, 1), EOPNOTSUPP, "listen: %s", type->name);
	EXPECT_ERRNO(accept(fd, NULL, NULL), EOPNOTSUPP, "accept: %s", type->name);
	EXPECT_ERRNO(getsockname(fd, &any.sa, &any.len), EOPNOTSUPP, "getsockname: %s", type->name);
	EXPECT_ERRNO(getpeername(fd, &any.sa, &any.len), EOPNOTSUPP, "getpeername: %s", type->name);
	EXPECT_ERRNO(shutdown(fd, SHUT_RDWR), EOPNOTSUPP, "shutdown: %s", type->name);
	check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV, "mmap: %s",
	      type->name);
	EXPECT_ERRNO(lseek(fd, 0, SEEK_SET), ESPIPE, "lseek: %s", type->name);
	close(fd);
}

static void ioctls(void)
{
	static const struct {
		unsigned long request;
		const char *name;
	} unknown[] = {
		{ SIOCPROTOPRIVATE + 3, "SIOCPROTOPRIVATE + 3" },
		{ SIOCPROTOPRIVATE + 15, "SIOCPROTOPRIVATE + 15" },
		{ SIOCINQ, "SIOCINQ" },
		{ SIOCOUTQ, "SIOCOUTQ" },
	};
	int fd = kcm_socket(HERE, SOCK_DGRAM), value = 0;

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		EXPECT_ERRNO(ioctl(fd, unknown[i].request, &value), ENOTTY, "ioctl: %s is unknown",
			     unknown[i].name);
	close(fd);
}

/* A socket holds the module; without sockets the scene unloads it at the end. */
static void holds_module(void)
{
	int fd = kcm_socket(HERE, SOCK_DGRAM);

	EXPECT_ERRNO(syscall(SYS_delete_module, "kcm", O_NONBLOCK), EAGAIN, "socket: an open one keeps the module");
	close(fd);
}

void api_socket(void)
{
	kinds();
	unprivileged();
	for (size_t i = 0; i < TYPES; i++)
		unsupported(&types[i]);
	ioctls();
	holds_module();
}
