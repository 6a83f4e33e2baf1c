// SPDX-License-Identifier: GPL-2.0
/* The program that uses the memory of another. */
#include "rdma_storm.h"

#include <signal.h>
#include <sys/wait.h>

#define AT_ONCE 4
#define AROUND 0x33
#define REFUSED_EACH_MS 700 /* each one ends the connection, for all */

static char expected[LARGEST], local[AT_ONCE][LARGEST + 2 * WORD];
static int own_number;
static struct word region; /* its seed is that of its present bytes */
static rds_rdma_cookie_t cookie, old_cookie;
static uint64_t tokens, seen; /* seen: the last write with a message that the owner has looked at */

/* flags: also RDS_RDMA_READWRITE. note: the message that goes with it, or null */
static bool begin(rds_rdma_cookie_t key, uint64_t offset, void *at, size_t size, uint64_t flags, const struct word *note)
{
	size_t first = size > 1 ? random_below(&dice, size) : 0;
	struct rds_iovec pieces[2] = { { TEXT(at), first }, { TEXT(at) + first, size - first } };
	struct rds_rdma_args args = { .cookie = key, .remote_vec = { offset, size }, .nr_local = first ? 2 : 1,
				      .local_vec_addr = TEXT(first ? pieces : pieces + 1), .user_token = ++tokens,
				      .flags = flags | RDS_RDMA_NOTIFY_ME | (note ? 0 : RDS_RDMA_SILENT) |
					       (chance(4) ? RDS_RDMA_FENCE : 0) };
	struct control c = { .len = 0 };

	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	return send_control(fd, note, note ? sizeof(*note) : 0, &peer, &c, 0) >= 0;
}

/* The owner's answer may come before the notice of what it answers. */
static void take(const struct event *event)
{
	if (event->is_notice)
		return;
	if (event->word.what == SEEN)
		seen = event->word.least;
	else
		wrong("a message", event->word.what);
}

static int status_of(uint64_t token)
{
	struct event event;
	int status;

	for (int64_t until = now_ms() + PATIENCE_MS; now_ms() < until;) {
		if (has_ended(token, &status)) {
			if (status != RDS_RDMA_SUCCESS)
				count(&counts->dropped);
			return status;
		}
		if (receive(&event, 1000))
			take(&event);
	}
	wrong("no notice", token);
	return RDS_RDMA_DROPPED;
}

/* Lost with the connection, or because it did not work any more: nobody knows how far it came. */
static bool is_lost(int status)
{
	if (status == RDS_RDMA_REMOTE_ERROR)
		wrong("a good operation is refused", status);
	return status != RDS_RDMA_SUCCESS;
}

static bool is_read(const char *at, uint64_t offset, size_t size)
{
	return !memcmp(at + WORD, expected + offset, size) && all_are(at, WORD, AROUND) &&
	       all_are(at + WORD + size, WORD, AROUND);
}

/* Several at once. */
static void read_some(void)
{
	uint64_t offset[AT_ONCE], size[AT_ONCE], first = tokens + 1;
	unsigned int ways = 1 + random_below(&dice, AT_ONCE), begun = 0;

	for (; begun < ways; begun++) {
		offset[begun] = random_below(&dice, region.size);
		size[begun] = 1 + random_below(&dice, region.size - offset[begun]);
		memset(local[begun], AROUND, size[begun] + 2 * WORD);
		if (!begin(cookie, WORD + offset[begun], local[begun] + WORD, size[begun], 0, NULL))
			break;
	}
	for (unsigned int i = 0; i < begun; i++) {
		if (is_lost(status_of(first + i)))
			continue;
		if (!is_read(local[i], offset[i], size[i]))
			wrong("what was read", size[i]);
		count(&counts->reads);
	}
}

static void wait_until_seen(uint64_t number)
{
	struct event event;

	for (int64_t until = now_ms() + PATIENCE_MS; seen != number && now_ms() < until;)
		if (receive(&event, 1000))
			take(&event);
	if (seen != number)
		wrong("the owner has not seen", number);
}

/* All of it. Until it is known to be there: what is written twice is the same. */
static void write_all(bool with_note)
{
	struct word written = { .what = NOTE, .seed = random_next(&dice) };
	char *at = local[0] + random_below(&dice, WORD);
	bool begun;

	pattern_fill(at, region.size, written.seed);
	for (int64_t until = now_ms() + PATIENCE_MS; now_ms() < until;) {
		written.least = tokens + 1;
		begun = begin(cookie, WORD, at, region.size, RDS_RDMA_READWRITE, with_note ? &written : NULL);
		if (!begun || is_lost(status_of(tokens)))
			continue;
		if (with_note)
			wait_until_seen(written.least);
		count(with_note ? &counts->notes : &counts->writes);
		region.seed = written.seed;
		memcpy(expected, at, region.size);
		return;
	}
	wrong("a write does not succeed", region.size);
}

/* One more. The value before says how many of those that were lost were done. */
static void add(void)
{
	static uint64_t old __attribute__((aligned(8)));
	struct rds_atomic_args args = { .cookie = cookie, .local_addr = TEXT(&old), .user_token = ++tokens,
					.flags = RDS_RDMA_NOTIFY_ME | RDS_RDMA_SILENT, .fadd.add = 1 };
	struct control c = { .len = 0 };

	control_add(&c, SOL_RDS, RDS_CMSG_ATOMIC_FADD, &args, sizeof(args));
	if (send_control(fd, NULL, 0, &peer, &c, 0) < 0)
		return;
	region.most++;
	if (is_lost(status_of(args.user_token)))
		return;
	if (old < region.least || old >= region.most)
		wrong("old value of an addition", old);
	region.least = region.most = old + 1;
	count(&counts->adds);
}

/* Beyond the region, or into one that has ended. */
static void try_bad(void)
{
	int64_t last = __atomic_load_n(&counts->refused_ms, __ATOMIC_RELAXED), now = now_ms();
	bool beyond = !old_cookie || chance(2);

	if (now - last < REFUSED_EACH_MS ||
	    !__atomic_compare_exchange_n(&counts->refused_ms, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	memset(local[0], 0x99, 64);
	if (!begin(beyond ? cookie : old_cookie, beyond ? WORD + region.size : 0, local[0], 64, RDS_RDMA_READWRITE, NULL))
		return;
	if (status_of(tokens) == RDS_RDMA_SUCCESS)
		wrong(beyond ? "a write beyond the end" : "a key that has ended", region.size);
	count(&counts->refused);
}

/* Another program, with memory of its own for the peer, is killed while the device may be writing to its memory. */
static void kill_one(void)
{
	struct rds_get_mr_for_dest_args args = { .vec = { TEXT(expected), LARGEST }, .cookie_addr = TEXT(&old_cookie),
						 .flags = RDS_RDMA_READWRITE };
	unsigned int patience_us = random_below(&dice, 3000);
	pid_t child = fork();

	NEED(child >= 0);
	if (!child) {
		fd = rds_bound(HERE, own_ip, 0);
		memcpy(&args.dest_addr, &peer.sa, peer.len);
		setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &args, sizeof(args));
		for (;;)
			if (!begin(cookie, WORD, local[0], region.size, 0, NULL))
				nap_us(1000);
	}
	nap_us(patience_us);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	count(&counts->killed);
}

static void any_step(void)
{
	switch (random_below(&dice, 16)) {
	case 0 ... 4:
		return read_some();
	case 5 ... 7:
		return write_all(false);
	case 8 ... 10:
		return write_all(true);
	case 11 ... 13:
		return region.counts ? add() : read_some();
	case 14:
		return try_bad();
	default:
		return kill_one();
	}
}

static void use(const struct event *given)
{
	old_cookie = cookie;
	cookie = given->cookie;
	region = given->word;
	region.least = region.most = 0;
	pattern_fill(expected, region.size, region.seed);
	if (chance(8)) { /* nothing is under way to it */
		close(fd);
		open_socket(USER_PORT + own_number, OWNER_PORT + own_number);
		count(&counts->reopened);
	}
	for (int steps = 1 + random_below(&dice, 8); steps; steps--)
		any_step();
	region.what = DONE;
	say(&region, NULL);
}

void user(int number)
{
	struct event event;
	bool began = false;

	own_number = number;
	open_socket(USER_PORT + number, OWNER_PORT + number);
	for (int64_t until = now_ms() + 2 * PATIENCE_MS; now_ms() < until;) {
		if (!began)
			rds_send(fd, &(struct word){ .what = HELLO }, sizeof(struct word), &peer, MSG_DONTWAIT);
		if (!receive(&event, 500) || event.is_notice || event.word.what == SEEN)
			continue;
		began = true;
		if (event.word.what == END)
			break;
		use(&event);
		until = now_ms() + 2 * PATIENCE_MS;
	}
	say(&(struct word){ .what = BYE }, NULL);
	nap_us(stretched(2000) * 1000); /* closing would cancel it */
	_exit(0);
}
