// SPDX-License-Identifier: GPL-2.0
/* The sockets shared by all callers. A slot's descriptor number is reserved, and survives close and reopen. */
#include "rdma_fuzz.h"

#define SLOTS 8
#define FIRST_SLOT 500
#define FIRST_PORT 5300

const char *own_ip, *peer_ip;

int some_socket(struct caller *c)
{
	return FIRST_SLOT + pick(c, SLOTS);
}

struct addr some_peer(struct caller *c)
{
	return addr(peer_ip, FIRST_PORT + pick(c, chance(c, 16) ? SLOTS + 1 : SLOTS));
}

/* The old socket is closed while other threads use it; its regions and operations end with it. */
static void replace(struct caller *c, int slot)
{
	struct timeval soon = { 0, 1000 + pick(c, 20000) };
	struct addr own = addr(own_ip, FIRST_PORT + slot), far = some_peer(c);
	int fd = CALL(c, K_SOCKET, socket(AF_RDS, SOCK_SEQPACKET, 0));

	NEED(fd >= 0);
	close(FIRST_SLOT + slot); /* its port is free then */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 65536 << pick(c, 8));
	CALL(c, K_BIND, bind(fd, &own.sa, own.len));
	if (chance(c, 2))
		connect(fd, &far.sa, far.len);
	NEED(dup2(fd, FIRST_SLOT + slot) >= 0);
	CALL(c, K_CLOSE, close(fd));
}

void pool_open(struct caller *c)
{
	for (int i = 0; i < SLOTS; i++)
		replace(c, i);
}

void pool_close(void)
{
	for (int i = 0; i < SLOTS; i++)
		close(FIRST_SLOT + i);
}

void call_socket(struct caller *c)
{
	struct addr to = some_peer(c);

	switch (pick(c, 5)) {
	case 0:
		if (is_calm())
			return;
		CALL(c, K_CANCEL, setsockopt(some_socket(c), SOL_RDS, RDS_CANCEL_SENT_TO, &to.sa, to.len));
		return;
	case 1:
		poll_any(c, K_POLL, some_socket);
		return;
	case 2: {
		char rows[4096];
		socklen_t len = sizeof(rows);

		CALL(c, K_INFO, getsockopt(some_socket(c), SOL_RDS, RDS_INFO_IB_CONNECTIONS, rows, &len));
		return;
	}
	case 3: {
		/* Without a device there is no address, and the port may still be held by a call or a child. */
		int slot = pick(c, SLOTS);
		struct addr own = addr(own_ip, chance(c, 4) ? 0 : FIRST_PORT + slot);

		CALL(c, K_BIND, bind(FIRST_SLOT + slot, &own.sa, own.len));
		return;
	}
	default:
		if (odd(c, 4))
			replace(c, pick(c, SLOTS));
	}
}
