// SPDX-License-Identifier: GPL-2.0
/* The program whose memory it is. */
#include "rdma_storm.h"

#define AROUND 0x5e

static char memory[MEMORY] __attribute__((aligned(4096)));

static bool find_word(struct event *event, uint32_t what)
{
	for (int64_t until = now_ms() + PATIENCE_MS; now_ms() < until;)
		if (receive(event, 1000) && !event->is_notice && event->word.what == what)
			return true;
	wrong("no message came of kind", what);
	return false;
}

static void check_written(const char *at, const struct word *region, uint64_t seed)
{
	if (!pattern_matches(at + WORD, region->size, seed))
		wrong("what was written", seed);
	if (!all_are(memory, at - memory, AROUND) ||
	    !all_are(at + WORD + region->size, memory + MEMORY - at - WORD - region->size, AROUND))
		wrong("bytes around a region", region->size);
}

static void check_done(const char *at, const struct word *region, const struct word *done)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	if (value < done->least || value > done->most)
		wrong("number of additions", value);
	check_written(at, region, done->seed);
	count(&counts->regions);
}

/* The one that waits for the operation sees what is in memory: the message was sent behind it. */
static bool serve(const char *at, const struct word *region)
{
	struct event event;

	for (int64_t until = now_ms() + 2 * PATIENCE_MS; now_ms() < until;) {
		if (!receive(&event, 1000) || event.is_notice)
			continue;
		if (event.word.what == DONE) {
			check_done(at, region, &event.word);
			return true;
		}
		if (event.word.what == NOTE) {
			check_written(at, region, event.word.seed);
			event.word.what = SEEN;
			say(&event.word, NULL);
		} else if (event.word.what != HELLO) {
			wrong("kind of a message", event.word.what);
		}
	}
	wrong("the user is not done", 0);
	return false;
}

static rds_rdma_cookie_t register_now(struct rds_get_mr_args args)
{
	rds_rdma_cookie_t cookie = 0;
	struct rds_get_mr_for_dest_args dest = { .vec = args.vec, .cookie_addr = TEXT(&cookie), .flags = args.flags };
	int error;

	args.cookie_addr = TEXT(&cookie);
	memcpy(&dest.dest_addr, &peer.sa, peer.len);
	if (chance(2))
		WAIT_UNTIL(PATIENCE_MS, (error = setsockopt(fd, SOL_RDS, RDS_GET_MR, &args, sizeof(args))) == 0 ||
						errno != EAGAIN);
	else
		WAIT_UNTIL(PATIENCE_MS, (error = setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &dest, sizeof(dest))) == 0 ||
						errno != EAGAIN);
	if (error)
		wrong("RDS_GET_MR", errno);
	return cookie;
}

static rds_rdma_cookie_t give(char *at, const struct word *region)
{
	rds_rdma_cookie_t cookie = 0;
	struct rds_get_mr_args args = { .vec = { TEXT(at), WORD + region->size }, .cookie_addr = TEXT(&cookie),
					.flags = RDS_RDMA_READWRITE };
	struct control c = { .len = 0 };

	if (chance(3)) {
		control_add(&c, SOL_RDS, RDS_CMSG_RDMA_MAP, &args, sizeof(args));
		count(&counts->maps);
	} else {
		cookie = register_now(args);
		control_add(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, &cookie, sizeof(cookie));
	}
	say(region, &c);
	return cookie;
}

/* With its socket, or alone. */
static void end_region(rds_rdma_cookie_t cookie, int number)
{
	struct rds_free_mr_args args = { .cookie = cookie, .flags = chance(2) ? RDS_RDMA_INVALIDATE : 0 };

	if (chance(6)) {
		close(fd);
		open_socket(OWNER_PORT + number, USER_PORT + number);
		count(&counts->closes);
	} else if (setsockopt(fd, SOL_RDS, RDS_FREE_MR, &args, sizeof(args))) {
		wrong("RDS_FREE_MR", errno);
	}
}

static bool one_region(int number)
{
	struct word region = { .what = REGION, .counts = chance(2), .seed = random_next(&dice) };
	size_t skew = random_below(&dice, 4096 / WORD) * WORD + (region.counts ? 0 : 1 + random_below(&dice, WORD - 1));
	char *at = memory + GUARD + skew;
	rds_rdma_cookie_t cookie;

	region.size = 1 + random_below(&dice, chance(4) ? LARGEST - 2 * WORD : 8192);
	memset(memory, AROUND, sizeof(memory));
	memset(at, 0, WORD);
	pattern_fill(at + WORD, region.size, region.seed);
	cookie = give(at, &region);
	if (!serve(at, &region))
		return false;
	end_region(cookie, number);
	return true;
}

void owner(int number)
{
	struct event event;

	open_socket(OWNER_PORT + number, USER_PORT + number);
	if (find_word(&event, HELLO))
		while (!over() && one_region(number))
			;
	say(&(struct word){ .what = END }, NULL);
	find_word(&event, BYE);
	_exit(0);
}
