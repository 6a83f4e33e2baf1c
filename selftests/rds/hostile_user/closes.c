// SPDX-License-Identifier: GPL-2.0
/* close() while others are inside the socket. */
#include "hostile.h"

#include <poll.h>

#define ROUNDS 300

static long receive_call(void *arg)
{
	char buf[8];

	return rds_recv(*(int *)arg, buf, sizeof(buf), NULL, 0);
}

static long poll_call(void *arg)
{
	struct pollfd p = { *(int *)arg, POLLIN };

	return poll(&p, 1, SOON_MS);
}

/* A call holds the socket: it stays bound, and receives messages, until the call returns. */
static void while_receiving(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 4820), inside = fd, tx = rds_bound(HERE, "127.0.0.1", 0);
	struct addr to = addr("127.0.0.1", 4820);
	struct task t;

	task_start(&t, receive_call, &inside);
	NEED(task_blocked(&t));
	close(fd);
	check(!task_finished(&t, 50), "close: does not disturb a receive");
	NEED(rds_send(tx, "hello", 5, &to, 0) == 5);
	check(task_finished(&t, SOON_MS) && task_join(&t) == 5, "close: the receive gets its message");
	close(rds_bound(HERE, "127.0.0.1", 4820));
	check(true, "close: then the port is free");
	close(tx);
}

static void while_polling(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 4821), inside = fd, tx = rds_bound(HERE, "127.0.0.1", 0);
	struct addr to = addr("127.0.0.1", 4821);
	struct task t;

	/* The first poll() may report a congestion change from before the socket was made. */
	polled(fd, POLLIN, 0);
	task_start(&t, poll_call, &inside);
	NEED(task_blocked(&t));
	close(fd);
	NEED(rds_send(tx, "hello", 5, &to, 0) == 5);
	check(task_finished(&t, SOON_MS) && task_join(&t) == 1, "close: poll() sees the message");
	close(tx);
}

static struct {
	int fd;
	struct addr to;
	int stop;
} race;

static void *race_sender(void *arg)
{
	char buf[100] = "";
	int mine = *(int *)arg;

	while (!__atomic_load_n(&race.stop, __ATOMIC_RELAXED)) {
		int fd = __atomic_load_n(&race.fd, __ATOMIC_RELAXED);
		socklen_t len = sizeof(buf);

		/* Any errno is good, EBADF and ENOTSOCK too: the descriptor may already be reused. */
		switch (mine) {
		case 0:
			rds_send(fd, buf, sizeof(buf), &race.to, MSG_DONTWAIT);
			break;
		case 1:
			rds_recv(fd, buf, sizeof(buf), NULL, MSG_DONTWAIT);
			break;
		case 2:
			polled(fd, POLLIN | POLLOUT, 0);
			break;
		default:
			getsockopt(fd, SOL_RDS, RDS_INFO_SOCKETS, buf, &len);
			set_int(fd, SOL_RDS, RDS_CONG_MONITOR, len % 2);
			setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &race.to.sa, race.to.len);
		}
	}
	return NULL;
}

static void races(const char *where)
{
	pthread_t threads[4];
	int kinds[4] = { 0, 1, 2, 3 };

	race.stop = 0;
	race.to = addr(where, 4830);
	race.fd = rds_bound(HERE, where, 4830);
	for (int i = 0; i < 4; i++)
		NEED(pthread_create(&threads[i], NULL, race_sender, &kinds[i]) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		int fresh = rds_socket(HERE);

		/* The last call to return closes the old socket; its port may still be taken for a
		 * moment. */
		NEED(dup2(fresh, race.fd) == race.fd);
		close(fresh);
		WAIT_UNTIL(SOON_MS, rds_bind(race.fd, &race.to) == 0);
		nap_us(300);
	}
	__atomic_store_n(&race.stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
	close(race.fd);
	check(all_is_well(), "close: all is well after %d races, %s", ROUNDS, where);
}

void user_closes(void)
{
	while_receiving();
	while_polling();
	races("127.0.0.1");
	races(HERE4);
}
