// SPDX-License-Identifier: GPL-2.0
#include "api.h"

static char text[64];

static void empty(void)
{
	int loose = rds_socket(HERE), fd = rds_bound(HERE, "127.0.0.1", 0);

	EXPECT_ERRNO(rds_recv(loose, text, 1, NULL, MSG_DONTWAIT), EAGAIN, "recv: unbound, nothing there");
	EXPECT_ERRNO(rds_recv(fd, text, 1, NULL, MSG_DONTWAIT), EAGAIN, "recv: nothing there");
	EXPECT_EQ(rds_recv(fd, text, 1, NULL, MSG_OOB | MSG_DONTWAIT), 0, "recv: MSG_OOB gives nothing");
	EXPECT_ERRNO(rds_recv(fd, text, 1, NULL, MSG_ERRQUEUE), EAGAIN, "recv: MSG_ERRQUEUE, nothing there");
	close(loose);
	close(fd);
}

static void lengths(int fd, const struct addr *self, const char *where)
{
	struct control c;
	int flags;

	NEED(rds_send(fd, "0123456789", 10, self, 0) == 10);
	EXPECT_EQ(recv_control(fd, text, 4, &c, MSG_PEEK, &flags), 4, "recv: MSG_PEEK, short, %s", where);
	check(flags & MSG_TRUNC, "recv: MSG_PEEK reports that it was short, %s", where);
	EXPECT_EQ(rds_recv(fd, text, 4, NULL, MSG_PEEK | MSG_TRUNC), 10, "recv: MSG_PEEK | MSG_TRUNC, %s",
		  where);
	check(!memcmp(text, "0123", 4), "recv: MSG_PEEK gives the beginning, %s", where);
	EXPECT_EQ(rds_recv(fd, text, 0, NULL, MSG_PEEK | MSG_TRUNC), 10, "recv: room for nothing, %s", where);
	EXPECT_EQ(rds_recv(fd, text, 4, NULL, MSG_TRUNC), 10, "recv: MSG_TRUNC gives the real length, %s",
		  where);
	EXPECT_ERRNO(rds_recv(fd, text, 4, NULL, MSG_DONTWAIT), EAGAIN, "recv: the rest is gone, %s", where);
	NEED(rds_send(fd, "0123456789", 10, self, 0) == 10);
	EXPECT_EQ(recv_control(fd, text, sizeof(text), &c, 0, &flags), 10, "recv: all of it, %s", where);
	check(!(flags & MSG_TRUNC), "recv: all of it is not short, %s", where);
}

/* A receive that cannot copy the data must not lose it. */
static void memory(int fd, const struct addr *self, const char *where)
{
	char *edge = before_hole(5);

	NEED(rds_send(fd, "0123456789", 10, self, 0) == 10);
	EXPECT_ERRNO(rds_recv(fd, bad_pointer(), 10, NULL, 0), EFAULT, "recv: bad pointer, %s", where);
	EXPECT_ERRNO(rds_recv(fd, read_only_page(), 10, NULL, 0), EFAULT, "recv: read-only memory, %s",
		     where);
	EXPECT_ERRNO(rds_recv(fd, edge, 10, NULL, 0), EFAULT, "recv: memory that ends early, %s", where);
	EXPECT_EQ(rds_recv(fd, text, sizeof(text), NULL, 0), 10, "recv: the message is still there, %s",
		  where);
	check(!memcmp(text, "0123456789", 10), "recv: it is whole, %s", where);
	EXPECT_ERRNO(recvmsg(fd, bad_pointer(), MSG_DONTWAIT), EFAULT, "recv: bad header pointer, %s", where);
	NEED(rds_send(fd, "0123456789", 10, self, 0) == 10);
	EXPECT_ERRNO(recvfrom(fd, text, 10, 0, bad_pointer(), &(socklen_t){ 16 }), EFAULT,
		     "recv: bad name pointer, %s", where);
}

static void names(int fd, const struct addr *self, const char *where)
{
	struct addr from = { .len = 6 };

	NEED(rds_send(fd, "x", 1, self, 0) == 1);
	EXPECT_EQ(rds_recv(fd, text, 1, &from, 0), 1, "recv: with a name, %s", where);
	check(addr_same(&from, self) && from.len == self->len, "recv: the name is the sender's, %s", where);
	NEED(rds_send(fd, "x", 1, self, 0) == 1);
	from.len = 6;
	NEED(recvfrom(fd, text, 1, 0, &from.sa, &from.len) == 1);
	EXPECT_EQ(from.len, self->len, "recv: a short name buffer gets the whole length, %s", where);
}

/* Messages that @fd takes from itself until its port is congested; then all are received. */
static int full(int fd)
{
	static char large[32000];
	struct addr self = addr_of(fd);
	int count = 0;

	while (rds_send(fd, large, sizeof(large), &self, MSG_DONTWAIT) == sizeof(large))
		count++;
	NEED(errno == ENOBUFS);
	for (int i = 0; i < count; i++)
		NEED(rds_recv(fd, large, sizeof(large), NULL, 0) == sizeof(large));
	return count;
}

/* The buffer of a program that sets none grows when the program reads faster than senders go on. */
static void growth(const char *where)
{
	int fd = rds_bound(HERE, where, 0), size = 106496, first = full(fd);

	EXPECT_EQ(first, 4, "recv: messages until the port is congested, %s", where);
	differs(full(fd) == 2 * first - 1, "buffers-grow", "recv: and twice as many bytes after all were read, %s", where);
	NEED(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	EXPECT_EQ(full(fd), first, "recv: not with SO_RCVBUF, %s", where);
	EXPECT_EQ(full(fd), first, "recv: nor later, %s", where);
	close(fd);
}

void api_receive(void)
{
	empty();
	for (size_t i = 0; i < PLACES; i++) {
		int fd = rds_bound(HERE, places[i].text, 0);
		struct addr self = addr_of(fd);

		lengths(fd, &self, places[i].text);
		memory(fd, &self, places[i].text);
		/* The bad name pointer above consumed its message; remaining messages must not confuse
		 * names(). */
		while (rds_recv(fd, text, 1, NULL, MSG_DONTWAIT) >= 0)
			;
		names(fd, &self, places[i].text);
		close(fd);
		if (places[i].tcp)
			growth(places[i].text);
	}
}
