// SPDX-License-Identifier: GPL-2.0
/*
 * regions --first|--second OWN PEER: two hosts read, write and count in each other's memory over RDMA. The first one gives
 * memory, then the second one.
 */
#include <poll.h>
#include <stddef.h>
#include <unistd.h>

#include "regions.h"

#define PORT 5200

int fd;
struct addr peer;
char memory[MEMORY] __attribute__((aligned(4096)));
static char local[MAX_MESSAGE + 8];
static struct event waiting;
static bool has_waiting;

static bool receive(struct event *event, bool *notice)
{
	struct control c;
	ssize_t n = recv_control(fd, &event->word, sizeof(event->word), &c, 0, NULL);
	struct rds_rdma_notify *status;
	uint64_t *cookie;

	if (n < 0)
		return false;
	status = control_find(&c, SOL_RDS, RDS_CMSG_RDMA_STATUS, 12);
	cookie = control_find(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, sizeof(*cookie));
	*notice = status;
	event->status = status ? status->status : -1;
	event->cookie = cookie ? *cookie : 0;
	return status || n == sizeof(event->word);
}

int next_status(void)
{
	struct event event;
	bool notice;

	while (receive(&event, &notice)) {
		if (notice)
			return event.status;
		if (event.word.what == HELLO)
			continue;
		NEED(!has_waiting);
		waiting = event;
		has_waiting = true;
	}
	return -1;
}

struct event next_word(uint32_t what)
{
	struct event event;
	bool notice = false;

	event = waiting;
	if (!has_waiting)
		do
			NEED(receive(&event, &notice));
		while (notice || event.word.what == HELLO);
	has_waiting = false;
	NEED(event.word.what == what);
	return event;
}

void say(uint32_t what, size_t size, uint64_t seed)
{
	struct word word = { .what = what, .size = size, .seed = seed };

	NEED(rds_send(fd, &word, sizeof(word), &peer, 0) == sizeof(word));
}

static int get_mr(void *at, size_t size, uint64_t *cookie)
{
	struct rds_get_mr_for_dest_args args = { .vec = { TEXT(at), size }, .cookie_addr = TEXT(cookie) };

	memcpy(&args.dest_addr, &peer.sa, peer.len);
	return setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &args, sizeof(args));
}

int free_mr(uint64_t cookie)
{
	struct rds_free_mr_args args = { .cookie = cookie };

	return setsockopt(fd, SOL_RDS, RDS_FREE_MR, &args, sizeof(args));
}

/* ---- The host whose memory it is ---- */

uint64_t give(size_t skew, size_t size, uint64_t seed, bool with_message)
{
	struct word word = { .what = REGION, .size = size, .seed = seed };
	struct control c = { .len = 0 };
	uint64_t cookie = 0;

	memset(memory, 0xee, sizeof(memory));
	pattern_fill(memory + GUARD + skew, size, seed);
	if (with_message) {
		struct rds_get_mr_args map = { .vec = { TEXT(memory + GUARD + skew), size },
					       .cookie_addr = TEXT(&cookie) };

		control_add(&c, SOL_RDS, RDS_CMSG_RDMA_MAP, &map, sizeof(map));
	} else {
		NEED(get_mr(memory + GUARD + skew, size, &cookie) == 0);
		control_add(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, &cookie, sizeof(cookie));
	}
	NEED(send_control(fd, &word, sizeof(word), &peer, &c, 0) == sizeof(word));
	return cookie;
}

bool all_are(const char *from, size_t len, char value)
{
	for (size_t i = 0; i < len; i++)
		if (from[i] != value)
			return false;
	return true;
}

static bool memory_is(size_t skew, size_t size, uint64_t seed)
{
	char *at = memory + GUARD + skew;

	return pattern_matches(at, size, seed) && all_are(memory, at - memory, 0xee) &&
	       all_are(at + size, memory + sizeof(memory) - at - size, 0xee);
}

static const size_t sizes[] = { 1, 2, 4095, 4096, 4097, 65536, MAX_MESSAGE }, skews[] = { 0, 1, 4095 };

static void own_sizes(void)
{
	bool written = true, freed = true;
	uint64_t seed = 1;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t j = 0; j < ARRAY_SIZE(skews); j++, seed += 2) {
			uint64_t cookie = give(skews[j], sizes[i], seed, j == 1);

			next_word(DONE);
			written &= memory_is(skews[j], sizes[i], seed + 1);
			freed &= free_mr(cookie) == 0 && free_mr(cookie) < 0 && errno == EINVAL;
		}
	check(written, "regions: the peer wrote the bytes of its operations, and no others");
	check(freed, "regions: each key is freed once");
}

/* In the order of use_refusals(). */
static void own_refusals(void)
{
	uint64_t cookie = give(5, 1000, 1, false), small;

	next_word(DONE);
	check(memory_is(5, 1000, 1), "regions: what is beyond the end is not written");
	/* A key of fewer bytes, with the size of the other region. */
	NEED(get_mr(memory, 100, &small) == 0);
	say(REGION, 1000, small);
	next_word(DONE);
	check(memory_is(5, 1000, 1), "regions: nor with the key of another region");
	say(REGION, 1000, 2);
	next_word(DONE);
	check(memory_is(5, 1000, 2), "regions: they outlive connections");
	NEED(free_mr(cookie) == 0);
	say(REGION, 1000, 3);
	next_word(DONE);
	check(memory_is(5, 1000, 2), "regions: nothing is written after RDS_FREE_MR");
	EXPECT_OK(free_mr(small), "regions: another one is not freed with it");
}

/* ---- The host that uses it ---- */

static int operate(uint64_t cookie, uint64_t offset, void *from, size_t size, uint64_t flags)
{
	struct rds_iovec vector = { TEXT(from), size };
	struct rds_rdma_args args = { .cookie = cookie, .remote_vec = { offset, size },
				      .local_vec_addr = TEXT(&vector), .nr_local = 1,
				      .flags = flags | RDS_RDMA_NOTIFY_ME };
	struct word word = { .what = DONE };
	struct control c = { .len = 0 };

	/* A read is without a message of its own: the region is still to be written. */
	if (!(flags & RDS_RDMA_READWRITE))
		args.flags |= RDS_RDMA_SILENT;
	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	if (send_control(fd, &word, flags & RDS_RDMA_READWRITE ? sizeof(word) : 0, &peer, &c, 0) < 0)
		return -1;
	return next_status();
}

static void use_sizes(void)
{
	bool read = true, written = true;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(skews); i++) {
		struct event given = next_word(REGION);
		size_t size = given.word.size;

		memset(local, 0x11, sizeof(local));
		read &= operate(given.cookie, 0, local + 3, size, 0) == RDS_RDMA_SUCCESS &&
			pattern_matches(local + 3, size, given.word.seed) && all_are(local, 3, 0x11) &&
			all_are(local + 3 + size, sizeof(local) - 3 - size, 0x11);
		pattern_fill(local + 3, size, given.word.seed + 1);
		written &= operate(given.cookie, 0, local + 3, size, RDS_RDMA_READWRITE) == RDS_RDMA_SUCCESS;
	}
	check(read, "regions: reads of 1 byte to 1 MiB, at odd places");
	check(written, "regions: the same of writes");
}

/* The peer's device refuses, and the connection ends: either may be what the notice says. */
static void expect_refusal(uint64_t cookie, uint64_t offset, const char *what)
{
	int status = operate(cookie, offset, local, 1000, RDS_RDMA_READWRITE);

	if (!check(status == RDS_RDMA_REMOTE_ERROR || status == RDS_RDMA_DROPPED, "regions: %s is refused", what))
		note("status %d", status);
	say(DONE, 0, 0);
}

static void use_refusals(void)
{
	uint64_t cookie = next_word(REGION).cookie, small;
	int status;

	memset(local, 0x22, sizeof(local));
	expect_refusal(cookie, 1, "a write beyond the end");
	small = next_word(REGION).word.seed;
	expect_refusal(small, 0, "the key of another region");
	pattern_fill(local, 1000, next_word(REGION).word.seed);
	/* Dropped: on the connection that was ending. */
	WAIT_UNTIL(SOON_MS, (status = operate(cookie, 0, local, 1000, RDS_RDMA_READWRITE)) != RDS_RDMA_DROPPED);
	EXPECT_EQ(status, RDS_RDMA_SUCCESS, "regions: a write over the next connection");
	next_word(REGION);
	expect_refusal(cookie, 0, "a key that was freed");
}

/* ---- Both ---- */

/* Until both are there. Has the peer regions? */
static bool meet(bool has_regions)
{
	struct word word = { .what = HELLO, .has_regions = has_regions };
	struct event event = { .word.what = DONE };
	bool notice;

	for (int64_t until = now_ms() + stretched(60000); now_ms() < until;) {
		rds_send(fd, &word, sizeof(word), &peer, MSG_DONTWAIT);
		if (polled(fd, POLLIN, 500) && receive(&event, &notice) && event.word.what == HELLO)
			break;
	}
	NEED(event.word.what == HELLO);
	/* The peer may have been too late for the others. */
	NEED(rds_send(fd, &word, sizeof(word), &peer, 0) == sizeof(word));
	return event.word.has_regions;
}

static int get_and_free(void)
{
	uint64_t cookie;

	if (get_mr(memory, 1, &cookie) < 0)
		return errno;
	return free_mr(cookie) < 0 ? errno : 0;
}

/* The kernel's own registers memory only together with a message (RDS_CMSG_RDMA_MAP) where devices are of today's kind. */
static bool has_regions(void)
{
	int error;

	WAIT_UNTIL(SOON_MS, (error = get_and_free()) != EAGAIN); /* there is no connection yet */
	if (ktap_suite() == SUITE_KERNEL)
		EXPECT_EQ(error, EOPNOTSUPP, "regions: the kernel's own refuses RDS_GET_MR_FOR_DEST, EOPNOTSUPP");
	else
		EXPECT_EQ(error, 0, "regions: a key is got and freed");
	return error == 0;
}

int main(int argc, char **argv)
{
	bool first, has;

	argc = ktap_start("regions", argc, argv);
	NEED(argc == 4);
	first = !strcmp(argv[1], "--first");
	fd = rds_bound(HERE, argv[2], PORT);
	peer = addr(argv[3], PORT);
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20) == 0);
	set_timeout_ms(fd, SO_RCVTIMEO, SOON_MS);
	has = has_regions();
	if (!meet(has) || !has) {
		note("one of the hosts refuses RDS_GET_MR_FOR_DEST: nothing more is tried");
		nap_us(stretched(2000) * 1000); /* closing would cancel what is not acknowledged */
		return ktap_finish();
	}
	for (int turn = 0; turn < 2; turn++) {
		bool owns = first == (turn == 0);

		(owns ? own_sizes : use_sizes)();
		(owns ? own_atomics : use_atomics)();
		(owns ? own_refusals : use_refusals)();
	}
	nap_us(stretched(2000) * 1000);
	return ktap_finish();
}
