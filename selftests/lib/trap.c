// SPDX-License-Identifier: GPL-2.0
#include "trap.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

static struct uffdio_range middle_of(const struct trap *t)
{
	return (struct uffdio_range){ (uintptr_t)t->memory + TRAP_PAGE, TRAP_PAGE };
}

static struct trap trap_of(unsigned long long mode)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = mode };
	struct trap t = { .fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK) };

	NEED(t.fd >= 0 && ioctl(t.fd, UFFDIO_API, &api) == 0);
	t.memory = mmap(NULL, TRAP_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(t.memory != MAP_FAILED);
	memset(t.memory, 1, TRAP_PAGE);
	memset(t.memory + 2 * TRAP_PAGE, 3, TRAP_PAGE);
	reg.range = middle_of(&t);
	NEED(ioctl(t.fd, UFFDIO_REGISTER, &reg) == 0);
	return t;
}

struct trap trap_new(void)
{
	return trap_of(UFFDIO_REGISTER_MODE_MISSING);
}

struct trap trap_for_writes(void)
{
	struct trap t = trap_of(UFFDIO_REGISTER_MODE_WP);
	struct uffdio_writeprotect protect = { .range = middle_of(&t), .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	t.writes = true;
	memset(t.memory + TRAP_PAGE, 2, TRAP_PAGE);
	NEED(ioctl(t.fd, UFFDIO_WRITEPROTECT, &protect) == 0);
	return t;
}

bool trap_sprung(struct trap *t)
{
	struct uffd_msg msg;

	return WAIT_UNTIL(SOON_MS, read(t->fd, &msg, sizeof(msg)) == sizeof(msg));
}

void trap_release(struct trap *t)
{
	struct uffdio_zeropage zero = { .range = middle_of(t) };
	struct uffdio_writeprotect open = { .range = middle_of(t) };

	NEED(t->writes ? ioctl(t->fd, UFFDIO_WRITEPROTECT, &open) == 0 : ioctl(t->fd, UFFDIO_ZEROPAGE, &zero) == 0);
}

void trap_delete(struct trap *t)
{
	munmap(t->memory, TRAP_SIZE);
	close(t->fd);
}
