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

struct trap trap_new(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct trap t = { .fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK) };

	NEED(t.fd >= 0 && ioctl(t.fd, UFFDIO_API, &api) == 0);
	t.memory = mmap(NULL, TRAP_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(t.memory != MAP_FAILED);
	memset(t.memory, 1, TRAP_PAGE);
	memset(t.memory + 2 * TRAP_PAGE, 3, TRAP_PAGE);
	reg.range = (struct uffdio_range){ (uintptr_t)t.memory + TRAP_PAGE, TRAP_PAGE };
	NEED(ioctl(t.fd, UFFDIO_REGISTER, &reg) == 0);
	return t;
}

bool trap_sprung(struct trap *t)
{
	struct uffd_msg msg;

	return WAIT_UNTIL(SOON_MS, read(t->fd, &msg, sizeof(msg)) == sizeof(msg));
}

void trap_release(struct trap *t)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)t->memory + TRAP_PAGE, TRAP_PAGE } };

	NEED(ioctl(t->fd, UFFDIO_ZEROPAGE, &zero) == 0);
}

void trap_delete(struct trap *t)
{
	munmap(t->memory, TRAP_SIZE);
	close(t->fd);
}
