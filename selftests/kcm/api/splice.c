// SPDX-License-Identifier: GPL-2.0
#include "api.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

struct pipe {
	int out, in;
};

static struct pipe pipe_new(void)
{
	int fd[2];

	NEED(pipe2(fd, O_CLOEXEC) == 0);
	/* For the reading end only: at the other end it would mean SPLICE_F_NONBLOCK for every call. */
	NEED(fcntl(fd[0], F_SETFL, O_NONBLOCK) == 0);
	return (struct pipe){ fd[0], fd[1] };
}

static void pipe_close(struct pipe *p)
{
	close(p->out);
	close(p->in);
}

static ssize_t from_kcm(int kcm, struct pipe *p, size_t len, int flags)
{
	NEED(polled(kcm, POLLIN, SOON_MS));
	return splice(kcm, NULL, p->in, NULL, len, flags);
}

static void to_pipe(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	struct pipe p = pipe_new();

	peer_send_frame(r.peer, MEDIUM, 1);
	EXPECT_EQ(from_kcm(r.kcm, &p, MEDIUM, 0), MEDIUM, "splice: a message to a pipe, %s", type->name);
	check(frame_is(buf, read(p.out, buf, sizeof(buf)), MEDIUM, 1), "splice: whole, %s", type->name);
	peer_send_frame(r.peer, 20000, 2);
	EXPECT_EQ(from_kcm(r.kcm, &p, 65536, 0), 20000, "splice: at most one message, %s", type->name);
	check(frame_is(buf, read(p.out, buf, sizeof(buf)), 20000, 2), "splice: of several pages, %s", type->name);
	check(stays_quiet(r.kcm), "splice: it is taken, %s", type->name);
	pipe_close(&p);
	rig_close(&r);
}

static void in_pieces(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	struct pipe p = pipe_new();
	bool rest;

	peer_send_frame(r.peer, MEDIUM, 1);
	EXPECT_EQ(from_kcm(r.kcm, &p, 50, 0), 50, "splice: a part of a message");
	rest = polled(r.kcm, POLLIN, stretched(50)) && splice(r.kcm, NULL, p.in, NULL, 200, 0) == MEDIUM - 50;
	differs(rest && frame_is(buf, read(p.out, buf, sizeof(buf)), MEDIUM, 1), "partial-loses",
		"splice: the next call gets the rest");
	pipe_close(&p);
	rig_close(&r);
}

static long splice_nothing(void *arg)
{
	struct rig *r = arg;
	struct pipe p = pipe_new();
	long n = splice(r->kcm, NULL, p.in, NULL, 200, SPLICE_F_NONBLOCK);
	int error = errno;

	pipe_close(&p);
	errno = error;
	return n;
}

static void nonblocking(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());
	struct pipe p = pipe_new();
	struct task t;
	bool waited;

	peer_send_frame(r.peer, MEDIUM, 1);
	EXPECT_EQ(from_kcm(r.kcm, &p, 50, SPLICE_F_NONBLOCK), 50, "splice: SPLICE_F_NONBLOCK, a part");
	EXPECT_EQ(from_kcm(r.kcm, &p, 200, SPLICE_F_NONBLOCK), MEDIUM - 50, "splice: SPLICE_F_NONBLOCK, the rest");
	check(frame_is(buf, read(p.out, buf, sizeof(buf)), MEDIUM, 1), "splice: both make the message");
	differs(!polled(r.kcm, POLLIN, 0), "splice-nonblock", "splice: SPLICE_F_NONBLOCK takes the message away");
	while (recv(r.kcm, buf, sizeof(buf), MSG_DONTWAIT) >= 0)
		;
	task_start(&t, splice_nothing, &r);
	waited = !task_finished(&t, stretched(200));
	if (waited)
		peer_send_frame(r.peer, MEDIUM, 2);
	NEED(task_finished(&t, SOON_MS));
	differs(task_join(&t) < 0 && errno == EAGAIN && !waited, "splice-nonblock",
		"splice: SPLICE_F_NONBLOCK does not wait");
	pipe_close(&p);
	rig_close(&r);
}

static long splice_waiting(void *arg)
{
	struct rig *r = arg;
	struct pipe p = pipe_new();
	long n = splice(r->kcm, NULL, p.in, NULL, 200, 0);

	pipe_close(&p);
	return n;
}

static void waiting(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	struct task t;

	task_start(&t, splice_waiting, &r);
	check(task_blocked(&t), "splice: waits for a message");
	peer_send_frame(r.peer, MEDIUM, 1);
	check(task_finished(&t, SOON_MS) && task_join(&t) == MEDIUM, "splice: and gets it");
	rig_close(&r);
}

/*
 * A splice without SPLICE_F_MORE ends its message, as write() does. Kernels from 6.5 on do not do that for
 * SOCK_SEQPACKET: there the test ends it itself.
 */
static void ends_message(struct rig *r, const struct type *type, const char *call)
{
	bool forgotten = type->value == SOCK_SEQPACKET && !kernel_before(6, 5);
	bool wrong = forgotten && ktap_suite() == SUITE_KERNEL;
	bool ended = polled(r->peer, POLLIN, wrong ? 100 : SOON_MS);

	differs_if(forgotten, ended, "splice-end", "%s: the message goes out, %s", call, type->name);
	if (!ended)
		NEED(send(r->kcm, NULL, 0, MSG_EOR) == 0);
}

static void from_pipe(const struct type *type)
{
	struct rig r = rig_open(type->value, parser_framed());
	struct pipe p = pipe_new();

	frame_fill(buf, MEDIUM, 1);
	NEED(write(p.in, buf, MEDIUM) == MEDIUM);
	EXPECT_EQ(splice(p.out, NULL, r.kcm, NULL, MEDIUM, 0), MEDIUM, "splice: a message from a pipe, %s", type->name);
	ends_message(&r, type, "splice");
	check(peer_takes(r.peer, MEDIUM, 1), "splice: whole, %s", type->name);
	frame_fill(buf, MEDIUM, 2);
	NEED(write(p.in, buf, MEDIUM) == MEDIUM);
	EXPECT_EQ(splice(p.out, NULL, r.kcm, NULL, MEDIUM, SPLICE_F_MORE), MEDIUM, "splice: SPLICE_F_MORE, %s",
		  type->name);
	check(stays_quiet(r.peer), "splice: is held, %s", type->name);
	EXPECT_EQ(send(r.kcm, NULL, 0, MSG_EOR), 0, "splice: MSG_EOR after it, %s", type->name);
	check(peer_takes(r.peer, MEDIUM, 2), "splice: lets it go, %s", type->name);
	pipe_close(&p);
	rig_close(&r);
}

static size_t send_file(int kcm, size_t len, uint64_t seed)
{
	int fd = memfd_create("frame", MFD_CLOEXEC);
	size_t done = 0;
	ssize_t n;

	frame_fill(buf, len, seed);
	NEED(fd >= 0 && write(fd, buf, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0);
	while (done < len && (n = sendfile(kcm, fd, NULL, len - done)) > 0)
		done += n;
	close(fd);
	return done;
}

static void from_file(const struct type *type)
{
	/* Well below SO_SNDBUF: with a full buffer the kernel's own KCM could not end a held message. */
	static const size_t sizes[] = { MEDIUM, 4096, 20000, 100000 };
	struct rig r = rig_open(type->value, parser_framed());

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(send_file(r.kcm, sizes[i], i), sizes[i], "sendfile: %zu bytes, %s", sizes[i], type->name);
		ends_message(&r, type, "sendfile");
		check(peer_takes(r.peer, sizes[i], i), "sendfile: whole, %s", type->name);
	}
	rig_close(&r);
}

void api_splice(void)
{
	for (size_t i = 0; i < TYPES; i++) {
		to_pipe(&types[i]);
		from_pipe(&types[i]);
		from_file(&types[i]);
	}
	in_pieces();
	nonblocking();
	waiting();
}
