// SPDX-License-Identifier: GPL-2.0
/*
 * Load while rds_tcp is loaded and unloaded.
 *
 *   loading spin OWN PEER    four processes make sockets, choose the transport, bind to OWN, send to PEER and close, until
 *                            SIGTERM; then prints the numbers of sent messages and refused binds
 *   loading occupy           listens on the port of RDS over TCP until it is killed
 *   loading occupy-elsewhere the same in a namespace of its own
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

enum { PROGRAMS = 4 };

struct tally {
	unsigned long sent, refused, chosen;
};

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

/* Makes, uses and closes a socket; false when the family is missing, which must not happen. */
static bool live(const struct addr *own, const struct addr *to, bool choose, struct tally *tally)
{
	int tcp = RDS_TRANS_TCP, fd = socket(AF_RDS, SOCK_SEQPACKET, 0);

	if (fd < 0)
		return false;
	if (choose && !setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &tcp, sizeof(tcp)))
		tally->chosen++;
	if (rds_bind(fd, own))
		tally->refused++;
	else if (rds_send(fd, "x", 1, to, MSG_DONTWAIT) == 1)
		tally->sent++;
	close(fd);
	return true;
}

/* Pauses are twice as long as the work, so that rmmod finds a time without a socket. */
static _Noreturn void program(const struct addr *own, const struct addr *to, bool choose, struct tally *tally)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!told_to_stop) {
		int64_t begin = now_us();

		if (!live(own, to, choose, tally))
			_exit(1);
		nap_us(100 + 2 * (unsigned int)(now_us() - begin));
	}
	_exit(0);
}

static int spin(const char *own_text, const char *peer_text)
{
	struct tally *tally = mmap(NULL, sizeof(*tally) * PROGRAMS, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct addr own = addr(own_text, 0), to = addr(peer_text, 4800);
	struct tally all = { 0, 0, 0 };
	int failed = 0, status;
	pid_t pids[PROGRAMS];

	NEED(tally != MAP_FAILED);
	signal(SIGTERM, stop);
	for (int i = 0; i < PROGRAMS; i++) {
		pids[i] = fork();
		NEED(pids[i] >= 0);
		if (!pids[i])
			program(&own, &to, i % 2, &tally[i]);
	}
	while (!told_to_stop)
		nap_us(10000);
	for (int i = 0; i < PROGRAMS; i++) {
		kill(pids[i], SIGTERM);
		waitpid(pids[i], &status, 0);
		failed += status != 0;
		all.sent += tally[i].sent;
		all.refused += tally[i].refused;
		all.chosen += tally[i].chosen;
	}
	printf("sent %lu, refused %lu, chosen %lu\n", all.sent, all.refused, all.chosen);
	return failed || !all.sent || !all.refused || !all.chosen;
}

static int occupy(bool elsewhere)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(RDS_TCP_PORT) };
	int fd;

	NEED(!elsewhere || !unshare(CLONE_NEWNET));
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	NEED(fd >= 0);
	NEED(!bind(fd, (struct sockaddr *)&any, sizeof(any)));
	NEED(!listen(fd, 1));
	printf("occupied\n");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "spin"))
		return spin(argv[2], argv[3]);
	if (argc == 2 && !strcmp(argv[1], "occupy"))
		return occupy(false);
	if (argc == 2 && !strcmp(argv[1], "occupy-elsewhere"))
		return occupy(true);
	fprintf(stderr, "usage: loading spin OWN PEER | occupy | occupy-elsewhere\n");
	return 2;
}
