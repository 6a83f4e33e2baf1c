// SPDX-License-Identifier: GPL-2.0
#include "api.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

static void flags(const struct type *type)
{
	int fd = kcm_socket(HERE, type->value | SOCK_NONBLOCK | SOCK_CLOEXEC), clone = kcm_clone(fd), second;

	check(clone >= 0 && clone != fd, "clone: a new socket, %s", type->name);
	EXPECT_EQ(get_int(clone, SOL_SOCKET, SO_TYPE), type->value, "clone: of the same type, %s", type->name);
	EXPECT_EQ(get_int(clone, SOL_SOCKET, SO_DOMAIN), AF_KCM, "clone: of the same family, %s", type->name);
	check(!(fcntl(clone, F_GETFL) & O_NONBLOCK) && !(fcntl(clone, F_GETFD) & FD_CLOEXEC),
	      "clone: waits, and is kept over exec, independent of the first one, %s", type->name);
	second = kcm_clone(clone);
	check(second >= 0, "clone: of a clone, %s", type->name);
	close(second);
	close(clone);
	close(fd);
}

static int failed_clone(int fd, void *where)
{
	return ioctl(fd, SIOCKCMCLONE, where);
}

static void no_room(void)
{
	struct rlimit before, none;
	int fd = kcm_socket(HERE, SOCK_DGRAM), clone;

	NEED(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = (struct rlimit){ fd + 1, before.rlim_max };
	NEED(setrlimit(RLIMIT_NOFILE, &none) == 0);
	EXPECT_ERRNO(kcm_clone(fd), EMFILE, "clone: no descriptor is left");
	NEED(setrlimit(RLIMIT_NOFILE, &before) == 0);
	clone = kcm_clone(fd);
	check(clone >= 0, "clone: works when there is one");
	close(clone);
	close(fd);
}

static void bad_memory(void)
{
	int fd = kcm_socket(HERE, SOCK_DGRAM), before = dup(fd), after;

	close(before);
	EXPECT_ERRNO(failed_clone(fd, bad_pointer()), EFAULT, "clone: bad pointer");
	EXPECT_ERRNO(failed_clone(fd, read_only_page()), EFAULT, "clone: memory that cannot be written");
	after = dup(fd);
	EXPECT_EQ(after, before, "clone: one that failed leaves no descriptor behind");
	close(after);
	close(fd);
}

static void shares(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int clone = kcm_clone(r.kcm);

	check(kcm_sends(clone, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1), "clone: sends over the same connections");
	NEED(kcm_disable(r.kcm, 1) == 0);
	peer_send_frame(r.peer, MEDIUM, 2);
	check(kcm_takes(clone, MEDIUM, 2), "clone: receives from the same connections");
	close(r.kcm);
	peer_send_frame(r.peer, MEDIUM, 3);
	check(kcm_takes(clone, MEDIUM, 3), "clone: works when the first is closed");
	r.kcm = clone;
	rig_close(&r);
}

void api_clone(void)
{
	for (size_t i = 0; i < TYPES; i++)
		flags(&types[i]);
	no_room();
	bad_memory();
	shares();
}
