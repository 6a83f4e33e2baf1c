// SPDX-License-Identifier: GPL-2.0
/* What the bytes of an unfinished message hold in memory, when other messages are copied between them. */
#include "api.h"

#define ROUNDS 2048
#define BETWEEN 32000
/* It would be 64 MiB if each byte held what lies around it; the rest of the machine is not quite still. */
#define MOST_KB (24 * 1024)

static long available_kb(void)
{
	char text[8192], *at;

	NEED(read_file("/proc/meminfo", text, sizeof(text)));
	at = strstr(text, "MemAvailable:");
	NEED(at);
	return atol(at + strlen("MemAvailable:"));
}

static void between(const char *memory, const char *name)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM), other = kcm_socket(HERE, SOCK_DGRAM);
	long before = available_kb(), held;
	bool right = true;

	for (int i = 0; i < ROUNDS && right; i++) {
		right = send(kcm, "x", 1, MSG_MORE) == 1;
		if (memory)
			right = right && send(other, memory, BETWEEN, MSG_MORE) == BETWEEN;
		else
			right = right && send(other, (void *)1, BETWEEN, 0) < 0 && errno == EFAULT;
		if (i % 4 == 3) { /* so many bytes may wait */
			close(other);
			other = kcm_socket(HERE, SOCK_DGRAM);
		}
	}
	check(right, "pinned: bytes and %s", name);
	held = before - available_kb();
	check(held < MOST_KB, "pinned: %d bytes hold %ld KiB after %s", ROUNDS, held, name);
	close(other);
	close(kcm);
}

/* What the others leave of a page is held as well, so that it counts. */
static void limited(int sndbuf, size_t size, long most)
{
	static char large[32768];
	int kcm = kcm_socket(HERE, SOCK_DGRAM), other = kcm_socket(HERE, SOCK_DGRAM);
	const char *name = size < 4096 ? "small" : "large";
	long page = size < 4096 ? 4096 : 32768, sent = 0;

	NEED(set_int(kcm, SOL_SOCKET, SO_SNDBUF, sndbuf) == 0);
	sndbuf = get_int(kcm, SOL_SOCKET, SO_SNDBUF);
	while (sent < 10000 && send(kcm, large, size, MSG_DONTWAIT) == (ssize_t)size) {
		sent++;
		NEED(send(other, large, page - size, MSG_MORE) == (ssize_t)(page - size));
		if (sent % 4 == 0) {
			close(other);
			other = kcm_socket(HERE, SOCK_DGRAM);
		}
	}
	check(sent > 1 && (sent - 1) * page <= most * sndbuf, "pinned: parts of %s pages hold %ld KiB at %d KiB of SO_SNDBUF",
	      name, sent * page / 1024, sndbuf / 1024);
	close(other);
	close(kcm);
}

void api_pinned(void)
{
	static char large[BETWEEN];

	between(NULL, "messages that fault");
	if (ktap_suite() == SUITE_OURS) /* the kernel's own gives every byte a page of 32 KiB then */
		between(large, "messages that are sent no more");
	if (ktap_suite() == SUITE_OURS) {
		limited(100000, 4096, 4);
		limited(100000, 1, 16);
	}
}
