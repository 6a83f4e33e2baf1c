// SPDX-License-Identifier: GPL-2.0
/*
 * Any call on any socket from several threads: sockets and connections are shared, replaced and closed while threads use
 * them. Each call must return, nothing may break, and at the end the module works as before.
 *
 * All random choices come from the seed; the interleaving of threads does not.
 */
#include "data.h"

#include <fcntl.h>
#include <hawser_kcm.h>
#include <sys/ioctl.h>

#include "tls.h"

#define THREADS 6
#define KCMS 8
#define LINKS 6
/* Of each thread: enough for every kind to occur often, and few enough for a slow machine. */
#define CALLS 2500
#define FEWEST 400
#define LONGEST_MS 10000

enum what { SEND, SEND_LARGE, RECEIVE, PEER_SEND, PEER_RECEIVE, ATTACH, UNATTACH, CLONE, OPEN, DISABLE, RELINK, OPTION, STATS,
	    SPLICE_OUT, SPLICE_IN, LOOK, SHUT, WAYS };

static const char *const names[WAYS] = { "send", "send large", "receive", "peer sends", "peer receives", "attach",
					 "unattach", "clone", "open", "disable", "relink", "option", "stats", "splice out",
					 "splice in", "look", "shut" };

static int kcm[KCMS], nears[LINKS], fars[LINKS];
static uint32_t worked[WAYS], failed[WAYS];
static bool has_tls;

struct thread {
	uint32_t who;
	struct random r;
	char *buf;
	int pipe[2];
	struct task task;
};

/* Sockets that do not wait, because no other thread may make room. */
static int never_waits(int fd)
{
	if (fd >= 0)
		NEED(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

/* A descriptor of a pool; another thread may replace it before its use. */
static int any(struct thread *t, int *pool, size_t count)
{
	return __atomic_load_n(&pool[random_below(&t->r, count)], __ATOMIC_RELAXED);
}

static void replace(struct thread *t, int *pool, size_t count, int fd)
{
	if (fd >= 0)
		close(__atomic_exchange_n(&pool[random_below(&t->r, count)], fd, __ATOMIC_RELAXED));
}

/* shutdown() holds it, too: a reused number may be a new connection's listener. */
static pthread_mutex_t links = PTHREAD_MUTEX_INITIALIZER;

static bool relink(struct thread *t)
{
	size_t i = random_below(&t->r, LINKS);
	struct link l;
	int far;

	pthread_mutex_lock(&links);
	l = tcp_link(HERE, random_below(&t->r, 2) ? AF_INET : AF_INET6);
	/* Another thread may have attached it already: then leave it. */
	if (has_tls && random_below(&t->r, 2))
		tls_secure(l.near, l.far, TLS_1_3_VERSION);
	far = __atomic_exchange_n(&fars[i], l.far, __ATOMIC_RELAXED);
	if (random_below(&t->r, 2))
		tcp_reset(far);
	else
		close(far);
	close(__atomic_exchange_n(&nears[i], l.near, __ATOMIC_RELAXED));
	pthread_mutex_unlock(&links);
	return true;
}

static bool shut(struct thread *t)
{
	int ret;

	pthread_mutex_lock(&links);
	ret = shutdown(any(t, random_below(&t->r, 2) ? nears : fars, LINKS), random_below(&t->r, 3));
	pthread_mutex_unlock(&links);
	return ret == 0;
}

static bool set_option(struct thread *t)
{
	static const struct {
		int option, below;
	} of_kcm[] = { { KCM_ERRORS, 2 }, { KCM_RECV_CONNECTION, 2 }, { KCM_MAX_MESSAGE, 100000 }, { KCM_STEERING, 4 } };
	size_t i = random_below(&t->r, ARRAY_SIZE(of_kcm));

	switch (random_below(&t->r, 3)) {
	case 0:
		return set_int(any(t, kcm, KCMS), SOL_SOCKET, random_below(&t->r, 2) ? SO_RCVBUF : SO_SNDBUF,
			       random_below(&t->r, 300000)) == 0;
	case 1:
		return set_int(any(t, nears, LINKS), SOL_SOCKET, SO_RCVBUF, random_below(&t->r, 300000)) == 0;
	default:
		return set_int(any(t, kcm, KCMS), SOL_KCM, of_kcm[i].option, random_below(&t->r, of_kcm[i].below)) == 0;
	}
}

static bool read_stats(struct thread *t)
{
	socklen_t len = sizeof(struct kcm_connection_stats) * random_below(&t->r, 5);

	return getsockopt(any(t, kcm, KCMS), SOL_KCM, KCM_STATS, t->buf, &len) == 0;
}

static bool send_any(struct thread *t, size_t len)
{
	static const int flags[] = { 0, MSG_EOR, MSG_MORE, MSG_BATCH, MSG_EOR | MSG_BATCH, MSG_EOR, MSG_EOR };

	int flag = flags[random_below(&t->r, ARRAY_SIZE(flags))];

	return send(any(t, kcm, KCMS), t->buf, len, MSG_DONTWAIT | MSG_NOSIGNAL | flag) >= 0;
}

static bool receive_any(struct thread *t)
{
	struct control control;
	int flags = MSG_DONTWAIT | (random_below(&t->r, 4) ? 0 : MSG_PEEK);

	return recv_control(any(t, kcm, KCMS), t->buf, random_below(&t->r, MESSAGE_MAX), &control, flags, NULL) >= 0;
}

/* Several frames, mostly valid, sometimes garbage, sometimes truncated. */
static bool peer_send_any(struct thread *t)
{
	size_t len = 0;

	for (int i = random_below(&t->r, 5); i >= 0; i--)
		len += message_write(t->buf + len, true, 0, random_below(&t->r, 1000));
	if (random_below(&t->r, 30) == 0)
		memset(t->buf, random_below(&t->r, 256), 4);
	return send(any(t, fars, LINKS), t->buf, random_below(&t->r, 10) ? len : random_below(&t->r, len),
		    MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

static bool splice_in(struct thread *t)
{
	ssize_t n = write(t->pipe[1], t->buf, random_below(&t->r, 9000));

	return n > 0 && splice(t->pipe[0], NULL, any(t, kcm, KCMS), NULL, n, SPLICE_F_NONBLOCK) > 0;
}

static bool splice_out(struct thread *t)
{
	bool moved = splice(any(t, kcm, KCMS), NULL, t->pipe[1], NULL, random_below(&t->r, 20000), SPLICE_F_NONBLOCK) > 0;

	while (read(t->pipe[0], t->buf, 65536) > 0)
		;
	return moved;
}

static bool one_call(struct thread *t, enum what what)
{
	int fd;

	switch (what) {
	case SEND:
		return send_any(t, random_below(&t->r, 2000));
	case SEND_LARGE:
		return send_any(t, random_below(&t->r, 4 * MESSAGE_MAX));
	case RECEIVE:
		return receive_any(t);
	case PEER_SEND:
		return peer_send_any(t);
	case PEER_RECEIVE:
		return recv(any(t, fars, LINKS), t->buf, 4 * MESSAGE_MAX, MSG_DONTWAIT) > 0;
	case ATTACH:
		return kcm_attach(any(t, kcm, KCMS), any(t, nears, LINKS), parser_framed()) == 0;
	case UNATTACH:
		return kcm_unattach(any(t, kcm, KCMS), any(t, nears, LINKS)) == 0;
	case CLONE:
		fd = never_waits(kcm_clone(any(t, kcm, KCMS)));
		replace(t, kcm, KCMS, fd);
		return fd >= 0;
	case OPEN:
		replace(t, kcm, KCMS, never_waits(kcm_socket(HERE, random_below(&t->r, 2) ? SOCK_DGRAM : SOCK_SEQPACKET)));
		return true;
	case DISABLE:
		return kcm_disable(any(t, kcm, KCMS), random_below(&t->r, 2)) == 0;
	case RELINK:
		return relink(t);
	case OPTION:
		return set_option(t);
	case STATS:
		return read_stats(t);
	case SPLICE_OUT:
		return splice_out(t);
	case SPLICE_IN:
		return splice_in(t);
	case LOOK:
		return read_file("/proc/thread-self/net/kcm", t->buf, 65536) &&
		       read_file("/proc/thread-self/net/kcm_stats", t->buf, 65536);
	default:
		return shut(t);
	}
}

/* Shares of the calls, per cent: mostly traffic, with enough new sockets and connections. */
static enum what choose(struct random *r)
{
	static const int weight[WAYS] = { 16, 3, 20, 18, 9, 8, 4, 2, 1, 4, 2, 3, 2, 2, 2, 1, 1 };
	int at = random_below(r, 98);
	enum what what = SEND;

	while (what < SHUT && (at -= weight[what]) >= 0)
		what++;
	return what;
}

static long rage(void *arg)
{
	struct thread *t = arg;
	int64_t until = now_ms() + LONGEST_MS;

	for (int i = 0; i < CALLS && (i < FEWEST || now_ms() < until); i++) {
		enum what what = choose(&t->r);

		__atomic_add_fetch(one_call(t, what) ? &worked[what] : &failed[what], 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void pools_open(void)
{
	for (int i = 0; i < LINKS; i++) {
		struct link l = tcp_link(HERE, AF_INET);

		nears[i] = l.near;
		fars[i] = l.far;
	}
	/* Some multiplexors with several sockets, and some of each type. */
	for (int i = 0; i < KCMS; i++)
		kcm[i] = never_waits(i % 3 ? kcm_clone(kcm[i - 1]) : kcm_socket(HERE, i % 2 ? SOCK_SEQPACKET : SOCK_DGRAM));
}

static void pools_close(void)
{
	for (int i = 0; i < KCMS; i++)
		close(kcm[i]);
	for (int i = 0; i < LINKS; i++) {
		close(nears[i]);
		close(fars[i]);
	}
}

static bool nothing_left(void)
{
	char text[4096];

	return read_file("/proc/thread-self/net/kcm", text, sizeof(text)) && strstr(text, "(0 MUX)");
}

static void note_counts(void)
{
	for (int what = 0; what < WAYS; what++)
		note("%-14s %6u worked, %6u failed", names[what], worked[what], failed[what]);
}

void data_storm(void)
{
	static struct thread threads[THREADS];
	bool done = true, all = true;
	struct rig r;

	has_tls = tls_has_readers();
	pools_open();
	for (uint32_t i = 0; i < THREADS; i++) {
		struct thread *t = &threads[i];

		*t = (struct thread){ .who = i, .r = { data_seed * 31 + i }, .buf = calloc(5, MESSAGE_MAX) };
		NEED(t->buf && pipe2(t->pipe, O_CLOEXEC | O_NONBLOCK) == 0);
		task_start(&t->task, rage, t);
	}
	for (int i = 0; i < THREADS; i++) {
		if (!task_finished(&threads[i].task, 3 * SOON_MS)) {
			task_note_wait(&threads[i].task);
			done = false;
		}
	}
	check(done, "storm: every call returns");
	NEED(done);
	for (int i = 0; i < THREADS; i++) {
		task_join(&threads[i].task);
		free(threads[i].buf);
		close(threads[i].pipe[0]);
		close(threads[i].pipe[1]);
	}
	note_counts();
	for (int what = 0; what < WAYS; what++)
		all = all && worked[what];
	check(all, "storm: every kind of call works sometimes");
	pools_close();
	check(WAIT_UNTIL(SOON_MS, nothing_left()), "storm: nothing is left of its multiplexors");
	r = rig_open(SOCK_DGRAM, parser_framed());
	peer_send_frame(r.peer, 5000, 1);
	check(kcm_takes(r.kcm, 5000, 1) && kcm_sends(r.kcm, 5000, 2) && peer_takes(r.peer, 5000, 2),
	      "storm: a fresh socket works");
	rig_close(&r);
}
