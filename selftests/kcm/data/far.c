// SPDX-License-Identifier: GPL-2.0
/*
 * One end of a pair of machines: several sockets over several TCP connections, of both families, with KCM at either end.
 * Each socket's messages arrive at any socket of the other end.
 */
#include "data.h"

#include <hawser_kcm.h>
#include <netinet/tcp.h>

#define SOCKETS 6
#define LINKS 4
/* Messages of each socket: enough that the link is cut before TCP has all. */
#define EACH_MIXED 800
#define EACH_CONSTANT 4000
#define PORT 7011
#define PATIENCE_MS (12 * SOON_MS) /* the link is cut now and then, and TCP is slow to notice that it is back */

struct far {
	const char *kind;
	int word; /* plain TCP: each end reports over it that it has everything */
	int tcp[LINKS];
	uint64_t ids[LINKS];
	struct ledger *in, *out;
	struct worker reads[SOCKETS], writes[SOCKETS];
};

static int listen_at(const char *ip)
{
	struct addr own = addr(ip, PORT);
	int fd = socket(own.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(fd >= 0 && set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1) == 0);
	NEED(bind(fd, &own.sa, own.len) == 0 && listen(fd, LINKS) == 0);
	return fd;
}

/* Until the other end listens. */
static int connect_to(const char *ip)
{
	struct addr to = addr(ip, PORT);
	int fd = -1;

	NEED(WAIT_UNTIL(PATIENCE_MS, ({
				if (fd >= 0)
					close(fd);
				fd = socket(to.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
				NEED(fd >= 0);
				connect(fd, &to.sa, to.len) == 0;
			})));
	return fd;
}

/*
 * A connection is accepted when it is whole at that end: when the last packet of its handshake is lost, a later one is accepted
 * before it. The others are alike, but if one of them was taken for this one, what either end sends on it would be read by
 * nobody. So no other is made before both ends have this one.
 */
static void agree_on(int word, bool listens)
{
	char byte;

	if (listens)
		NEED(send(word, "w", 1, MSG_NOSIGNAL) == 1);
	else
		NEED(polled(word, POLLIN, PATIENCE_MS) && recv(word, &byte, 1, MSG_DONTWAIT) == 1);
}

static void join(struct far *f, bool listens, const char *ip4, const char *ip6)
{
	int listener[2];

	for (int i = 0; listens && i < 2; i++)
		listener[i] = listen_at(i ? ip6 : ip4);
	for (int i = -1; i < LINKS; i++) {
		int *fd = i < 0 ? &f->word : &f->tcp[i];
		bool six = i >= 0 && i % 2;

		*fd = listens ? accept4(listener[six], NULL, NULL, SOCK_CLOEXEC) : connect_to(six ? ip6 : ip4);
		NEED(*fd >= 0 && set_int(*fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0);
		if (i < 0)
			agree_on(*fd, listens);
	}
	for (int i = 0; listens && i < 2; i++)
		close(listener[i]);
}

/* The kernel's own KCM reports no connections, and accepts no message above the TCP socket's buffer. */
static void learn_connections(struct far *f, int kcm)
{
	struct kcm_connection_stats stats[LINKS];
	socklen_t len = sizeof(stats);

	NEED(getsockopt(kcm, SOL_KCM, KCM_STATS, stats, &len) == 0 && len == sizeof(stats));
	for (int i = 0; i < LINKS; i++)
		f->ids[i] = stats[i].id;
	for (int i = 0; i < SOCKETS; i++) {
		NEED(set_int(f->reads[i].fd, SOL_KCM, KCM_RECV_CONNECTION, 1) == 0);
		f->reads[i].connections = f->ids;
		f->reads[i].connection_count = LINKS;
	}
}

static void open_sockets(struct far *f, bool mixed)
{
	bool ours = ktap_suite() == SUITE_OURS;
	uint32_t each = mixed ? EACH_MIXED : EACH_CONSTANT;

	f->in = ledger_new(mixed, SOCKETS, each, SOCKETS * LINKS);
	f->out = ledger_new(mixed, SOCKETS, each, 1);
	for (uint32_t i = 0; i < SOCKETS; i++) {
		int kcm = i ? kcm_clone(f->reads[0].fd) : kcm_socket(HERE, SOCK_DGRAM);

		NEED(kcm >= 0);
		f->reads[i] = (struct worker){ kcm, f->in, i };
		f->writes[i] = (struct worker){ kcm, f->out, i };
	}
	if (ours)
		NEED(set_int(f->reads[0].fd, SOL_KCM, KCM_MAX_MESSAGE, MESSAGE_LARGEST) == 0);
	for (int i = 0; i < LINKS; i++)
		NEED(kcm_attach(f->reads[0].fd, f->tcp[i], message_parser(mixed)) == 0);
	if (ours)
		learn_connections(f, f->reads[0].fd);
}

/* By connection: each carried a part. */
static bool all_carried(struct far *f)
{
	for (int c = 0; c < LINKS; c++) {
		uint32_t carried = 0;

		for (uint32_t i = 0; i < SOCKETS * LINKS * SOCKETS; i++)
			carried |= i / SOCKETS % LINKS == (uint32_t)c ? f->in->next[i] : 0;
		if (!carried)
			return false;
	}
	return true;
}

static void note_lines(const char *path, const char *with)
{
	FILE *file = fopen(path, "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (strstr(line, with))
			note("%s", line);
	}
	if (file)
		fclose(file);
}

/* What an end that waits in vain sees: the queues of KCM, and those and the timers of TCP. */
static void note_state(void)
{
	char port[8];

	snprintf(port, sizeof(port), ":%04X ", PORT);
	note_lines("/proc/net/kcm", "");
	note_lines("/proc/net/tcp", port);
	note_lines("/proc/net/tcp6", port);
}

static void judge(struct far *f)
{
	int errors[LINKS], broken = 0;

	if (ktap_suite() == SUITE_OURS) {
		EXPECT_EQ(f->in->misordered, 0, "far: %s: in order for each connection and socket", f->kind);
		check(all_carried(f), "far: %s: over every connection", f->kind);
	}
	for (int i = 0; i < LINKS; i++)
		broken += (errors[i] = sock_error(f->tcp[i])) != 0;
	EXPECT_EQ(broken, 0, "far: %s: no connection broke", f->kind);
	for (int i = 0; broken && i < LINKS; i++)
		note("connection %d: %s", i, strerror(errors[i]));
}

/* Both ends continue until both have everything, or one gives up. */
static void exchange(struct far *f)
{
	bool all = true;
	char word = 0;

	workers_start(f->reads, SOCKETS, kcm_reads);
	workers_start(f->writes, SOCKETS, kcm_writes);
	bool over = WAIT_UNTIL(PATIENCE_MS, ledger_over(f->in));
	int patience = over ? PATIENCE_MS : SOON_MS; /* a failure is to be reported before the scene's time is over */

	f->in->stop = true;
	workers_join(f->reads, SOCKETS);
	check(ledger_complete(f->in), "far: %s: every message, once and whole", f->kind);
	if (!over)
		note_state();
	for (int i = 0; i < SOCKETS; i++)
		all = task_finished(&f->writes[i].task, patience) && all;
	check(all, "far: %s: every sender ends", f->kind);
	judge(f);
	/* From here on the other end may exit. */
	NEED(send(f->word, "y", 1, MSG_NOSIGNAL) == 1);
	check(polled(f->word, POLLIN, patience) && recv(f->word, &word, 1, MSG_DONTWAIT) == 1 && word == 'y',
	      "far: %s: the other end is complete, too", f->kind);
}

void data_far(bool mixed, bool listens, const char *ip4, const char *ip6)
{
	struct far f = { .kind = mixed ? "mixed" : "constant" };

	data_large = mixed;
	join(&f, listens, ip4, ip6);
	open_sockets(&f, mixed);
	exchange(&f);
	/*
	 * A stuck sender would block the program without end, and not every one returns when its connections end: the error may
	 * have gone to a reader.
	 */
	for (int i = 0; i < LINKS; i++)
		shutdown(f.tcp[i], SHUT_RDWR);
	for (int i = 0; i < SOCKETS; i++)
		while (!task_finished(&f.writes[i].task, SOON_MS))
			task_signal(&f.writes[i].task);
	workers_join(f.writes, SOCKETS);
	for (int i = 0; i < SOCKETS; i++)
		close(f.reads[i].fd);
	for (int i = 0; i < LINKS; i++)
		close(f.tcp[i]);
	close(f.word);
	ledger_delete(f.in);
	ledger_delete(f.out);
}
