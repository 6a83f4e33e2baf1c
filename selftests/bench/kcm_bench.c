// SPDX-License-Identifier: GPL-2.0
//
// Cost of a message over KCM, compared with programs that do their own framing on TCP.
//
//   kcm_bench ROUND SCALE
//
// Prints a line for each cell:
//
//   cell WHO DIRECTION SIZE SOCKETS ROUND MESSAGES NS IDLE_NS
//
// DIRECTION rx: a child process fills a TCP connection with large writes and WHO takes messages out of it; tx: WHO puts
// messages in and the child reads the stream; tx-nodelay: with TCP_NODELAY, so that TCP makes a packet of each call.
// WHO is kcm (one call a message), kcm-batch (recvmmsg or sendmmsg of 16), kcm-many (64 KiB in a call, by KCM_LENGTHS, which
// the kernel's own has not), tcp (one recv() or write() a message) or tcp-large (64 KiB reads, split by the program). All
// messages of a cell are of one size and the parser program is constant, because others fail with the kernel's own KCM.
// The clock and idle times are those of bench.c.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/kcm.h>
#include <linux/sockios.h>

#include "clock.h"
#include "many.h"
#include "parser.h"

#define AF_KCM_ 41

enum { LARGE = 65536, BATCH = 16, MOST_SOCKETS = 4, CELL_SECONDS = 60, EXIT_STUCK = 3 };

enum who { KCM, KCM_BATCH, KCM_MANY, TCP, TCP_LARGE };
static const char *const names[] = { "kcm", "kcm-batch", "kcm-many", "tcp", "tcp-large" };

enum direction { TX, TX_NODELAY, RX, DIRECTIONS };
static const char *const directions[] = { "tx", "tx-nodelay", "rx" };

struct cell {
	enum who who;
	enum direction direction;
	size_t size;
	int sockets;
	size_t messages;
};

static char now_running[128];
static int near, far;			// the TCP connection's ends
static int socks[MOST_SOCKETS];
static struct cell cell;
static atomic_size_t taken;

static void die(const char *what)
{
	fprintf(stderr, "kcm_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void connect_tcp(void)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	socklen_t length = sizeof(name);

	if (bind(listener, (void *)&name, length) || listen(listener, 1) || getsockname(listener, (void *)&name, &length))
		die("listen");
	far = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(far, (void *)&name, length))
		die("connect");
	near = accept(listener, NULL, NULL);
	close(listener);
	if (cell.direction == TX_NODELAY && setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die("TCP_NODELAY");
}

static void open_kcm(void)
{
	struct kcm_attach attach = { .fd = near, .bpf_fd = parser_constant(cell.size) };

	socks[0] = socket(AF_KCM_, SOCK_DGRAM, KCMPROTO_CONNECTED);
	if (socks[0] < 0)
		die("socket");
	for (int i = 1; i < cell.sockets; i++) {
		struct kcm_clone clone;

		if (ioctl(socks[0], SIOCKCMCLONE, &clone))
			die("clone");
		socks[i] = clone.fd;
	}
	if (ioctl(socks[0], SIOCKCMATTACH, &attach))
		die("attach");
	close(attach.bpf_fd);
}

/* The other end of the connection, in a process of its own: it begins on command. */

static void write_all(int fd, size_t total)
{
	static char buffer[LARGE];

	while (total) {
		size_t part = total < LARGE ? total : LARGE;
		ssize_t sent = write(fd, buffer, part);

		if (sent <= 0)
			die("write");
		total -= sent;
	}
}

static void read_all(int fd, size_t total)
{
	static char buffer[LARGE];

	while (total) {
		ssize_t got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EAGAIN))
			die("read");
		/* Not woken for each packet: measure the sender, not task switches. */
		if (got < 0)
			usleep(300);
		else
			total -= got;
	}
}

static pid_t start_peer(int go[2], int done[2])
{
	size_t total = cell.messages * cell.size;
	pid_t pid;
	char byte;

	if (pipe(go) || pipe(done))
		die("pipe");
	pid = fork();
	if (pid)
		return pid;
	if (read(go[0], &byte, 1) != 1)
		die("go");
	if (cell.direction == RX)
		write_all(far, total);
	else
		read_all(far, total);
	if (write(done[1], "", 1) != 1)
		die("done");
	_exit(0);
}

/* Receiving. */

static void one_taken(size_t count)
{
	if (atomic_fetch_add(&taken, count) + count == cell.messages && cell.sockets > 1)
		kill(getpid(), SIGUSR1);	// the first may be waiting; it stops the others
}

static void *receive_kcm(void *arg)
{
	int fd = *(int *)arg;
	char *buffer = malloc(cell.size * BATCH);
	struct mmsghdr msgs[BATCH];
	struct iovec pieces[BATCH];

	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < BATCH; i++) {
		pieces[i] = (struct iovec){ buffer + i * cell.size, cell.size };
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &pieces[i], .msg_iovlen = 1 };
	}
	while (atomic_load(&taken) < cell.messages) {
		ssize_t got = cell.who == KCM_BATCH ? recvmmsg(fd, msgs, BATCH, MSG_WAITFORONE, NULL) :
						      recv(fd, buffer, cell.size, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || (cell.who == KCM && (size_t)got != cell.size))
			die("recv");
		one_taken(cell.who == KCM_BATCH ? got : 1);
	}
	free(buffer);
	return NULL;
}

static void receive_tcp(void)
{
	char *buffer = malloc(LARGE + cell.size);
	volatile char sink;
	size_t have = 0;

	while (taken < cell.messages) {
		if (cell.who == TCP) {
			if (recv(near, buffer, cell.size, MSG_WAITALL) != (ssize_t)cell.size)
				die("recv");
			taken++;
			continue;
		}
		ssize_t got = recv(near, buffer + have, LARGE, 0);
		size_t at = 0;

		if (got <= 0)
			die("recv");
		for (have += got; have - at >= cell.size; at += cell.size, taken++)
			sink = buffer[at];	// a program reads the length
		memmove(buffer, buffer + at, have - at);
		have -= at;
	}
	(void)sink;
	free(buffer);
}

/* Sending. */

static void *send_kcm(void *arg)
{
	int fd = *(int *)arg;
	size_t left = cell.messages / cell.sockets;
	char *buffer = calloc(1, cell.size);
	struct iovec piece = { buffer, cell.size };
	struct mmsghdr msgs[BATCH];

	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < BATCH; i++)
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 };
	while (left) {
		int count = left < BATCH ? left : BATCH;

		if (cell.who == KCM_BATCH)
			count = sendmmsg(fd, msgs, count, 0);
		else
			count = send(fd, buffer, cell.size, 0) == (ssize_t)cell.size;
		if (count <= 0)
			die("send");
		left -= count;
	}
	free(buffer);
	return NULL;
}

static void send_tcp(void)
{
	char *buffer = calloc(1, cell.size);

	for (size_t i = 0; i < cell.messages; i++)
		if (write(near, buffer, cell.size) != (ssize_t)cell.size)
			die("write");
	free(buffer);
}

static void in_threads(void *(*run)(void *))
{
	pthread_t threads[MOST_SOCKETS];

	for (int i = 1; i < cell.sockets; i++)
		if (pthread_create(&threads[i], NULL, run, &socks[i]))
			die("thread");
	run(&socks[0]);
	for (int i = 1; i < cell.sockets; i++) {
		while (cell.direction == RX && pthread_tryjoin_np(threads[i], NULL)) {
			pthread_kill(threads[i], SIGUSR1);
			usleep(100);
		}
		if (cell.direction != RX)
			pthread_join(threads[i], NULL);
	}
}

static void run_side(void)
{
	if (cell.who == KCM_MANY) {
		if (!(cell.direction == RX ? many_receive_all(MANY_OF_KCM, socks[0], cell.size, cell.messages) :
					     many_send_all(MANY_OF_KCM, socks[0], NULL, 0, cell.size, cell.messages)))
			die("many messages");
	} else if (cell.who == KCM || cell.who == KCM_BATCH)
		in_threads(cell.direction == RX ? receive_kcm : send_kcm);
	else if (cell.direction == RX)
		receive_tcp();
	else
		send_tcp();
}

static void nothing(int signal)
{
	(void)signal;
}

static void stuck(int signal)
{
	(void)signal;
	if (write(STDOUT_FILENO, now_running, strlen(now_running)) < 0)
		_exit(1);
	_exit(EXIT_STUCK);
}

static void close_all(bool kcm)
{
	for (int i = 0; kcm && i < cell.sockets; i++)
		close(socks[i]);
	close(near);
	close(far);
}

static void run_cell(const char *round, size_t scale)
{
	bool kcm = cell.who != TCP && cell.who != TCP_LARGE;
	int go[2], done[2];
	uint64_t ns, idle;
	pid_t peer;
	char byte;

	cell.messages *= scale;
	snprintf(now_running, sizeof(now_running), "stuck %s %s %zu %d %s\n", names[cell.who], directions[cell.direction],
		 cell.size, cell.sockets, round);
	connect_tcp();
	if (kcm)
		open_kcm();
	if (cell.who == KCM_MANY && !many_begin(MANY_OF_KCM, socks[0])) {
		close_all(kcm);
		return;
	}
	atomic_store(&taken, 0);
	peer = start_peer(go, done);
	usleep(20000);
	alarm(CELL_SECONDS);
	idle = idle_ns();
	ns = now_ns();
	MARK_BEGIN();
	if (write(go[1], "", 1) != 1)
		die("go");
	run_side();
	while (read(done[0], &byte, 1) != 1)
		if (errno != EINTR)
			die("done");
	MARK_END();
	ns = now_ns() - ns;
	idle = idle_ns() - idle;
	alarm(0);
	printf("cell %s %s %zu %d %s %zu %llu %llu\n", names[cell.who], directions[cell.direction], cell.size, cell.sockets,
	       round, cell.messages, (unsigned long long)ns, (unsigned long long)idle);
	fflush(stdout);
	close_all(kcm);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(done[i]);
	}
	waitpid(peer, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct {
		size_t size, messages;
	} sizes[] = { { 64, 20000 }, { 1024, 8000 }, { 16384, 1200 } };
	static const struct {
		enum who who;
		int sockets;
	} ways[] = { { TCP, 1 }, { TCP_LARGE, 1 }, { KCM, 1 }, { KCM, 4 }, { KCM_BATCH, 1 }, { KCM_MANY, 1 } };

	if (argc != 3) {
		fprintf(stderr, "usage: kcm_bench ROUND SCALE\n");
		return 2;
	}
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = nothing }, NULL);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = stuck }, NULL);
	for (int direction = 0; direction < DIRECTIONS; direction++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
				if (direction != RX && ways[w].who == TCP_LARGE)
					continue;
				cell = (struct cell){ ways[w].who, direction, sizes[s].size, ways[w].sockets, sizes[s].messages };
				run_cell(argv[1], atoi(argv[2]));
			}
	return 0;
}
