// SPDX-License-Identifier: GPL-2.0
/* The program's own calls on a TCP socket that is attached, was attached, or will be. */
#include "fuzz.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

/* Options that change how TCP sends and receives, without TCP_REPAIR. */
static void options(struct caller *c)
{
	static const int of_tcp[] = { TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_SYNCNT, TCP_LINGER2,
				      TCP_DEFER_ACCEPT, TCP_WINDOW_CLAMP, TCP_QUICKACK, TCP_THIN_LINEAR_TIMEOUTS,
				      TCP_USER_TIMEOUT, TCP_TIMESTAMP, TCP_NOTSENT_LOWAT, TCP_INQ };
	struct timeval soon = { 0, 1000 + pick(c, 100000) };
	bool polite = chance(c, 4);
	int fd = some(c, polite ? POLITE_NEAR : NEAR), value = chance(c, 2) ? pick(c, 3) : any_number(c);

	switch (pick(c, 4)) {
	case 0:
		CALL(c, K_TCP_OPTION, setsockopt(fd, IPPROTO_TCP, ANY_OF(c, of_tcp), &value, sizeof(value)));
		return;
	case 1: /* time limit of a message */
		CALL(c, K_TCP_OPTION, setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
		return;
	case 2:
		CALL(c, K_TCP_ULP, setsockopt(fd, IPPROTO_TCP, TCP_ULP, chance(c, 2) ? "tls" : "hawser", 4));
		return;
	default:
		return set_of_socket(c, K_TCP_OPTION, fd);
	}
}

static void write_some(struct caller *c, int fd)
{
	size_t size = any_size(c, 20000);

	CALL(c, K_TCP_WRITE, send(fd, c->scratch, size, MSG_DONTWAIT | MSG_NOSIGNAL | (chance(c, 4) ? MSG_MORE : 0) |
							(chance(c, 8) ? MSG_OOB : 0)));
}

static void read_some(struct caller *c, int fd)
{
	static const int flags[] = { 0, 0, MSG_PEEK, MSG_TRUNC, MSG_OOB, MSG_WAITALL, MSG_ERRQUEUE };
	size_t size = any_size(c, 100000);

	CALL(c, K_TCP_READ, recv(fd, c->inbox, size, MSG_DONTWAIT | ANY_OF(c, flags)));
}

static void splice_some(struct caller *c, int fd)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK) != 0)
		return;
	CALL(c, K_TCP_SPLICE, splice(fd, NULL, ends[1], NULL, 1 + any_size(c, 60000), SPLICE_F_NONBLOCK));
	close(ends[0]);
	close(ends[1]);
}

static void disconnect(struct caller *c, int fd)
{
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	CALL(c, K_TCP_DISCONNECT, connect(fd, &nobody, sizeof(nobody)));
	if (chance(c, 2))
		CALL(c, K_TCP_LISTEN, listen(fd, 1));
}

static void ask(struct caller *c, int fd)
{
	static const unsigned int asked[] = { FIONREAD, SIOCOUTQ, SIOCATMARK };
	int value;

	CALL(c, K_TCP_IOCTL, ioctl(fd, ANY_OF(c, asked), &value));
}

void call_tcp(struct caller *c)
{
	int fd = some(c, NEAR);

	switch (pick(c, 12)) {
	case 0:
	case 1:
		return write_some(c, fd);
	case 2:
	case 3:
		return read_some(c, fd);
	case 4:
		return splice_some(c, fd);
	case 5:
		CALL(c, K_TCP_SHUTDOWN, shutdown(fd, pick(c, 3)));
		return;
	case 6:
		return chance(c, 2) ? disconnect(c, fd) : ask(c, fd);
	case 7:
		CALL(c, K_TCP_LISTEN, listen(fd, 1));
		return;
	case 8:
		return ask(c, fd);
	default:
		return options(c);
	}
}
