// SPDX-License-Identifier: GPL-2.0
/*
 * rdma_storm OWN PEER [SEED [SECONDS]]
 */
#include "rdma_storm.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct counts *counts;
const char *own_ip, *peer_ip;
struct random dice;
int fd = -1;
struct addr peer;
static int64_t end_ms;

bool over(void)
{
	return now_ms() >= end_ms;
}

void wrong(const char *what, unsigned long long got)
{
	count(&counts->wrong);
	note("wrong: %s (%llu)", what, got);
}

void open_socket(int port, int peer_port)
{
	fd = rds_bound(HERE, own_ip, port);
	peer = addr(peer_ip, peer_port);
	NEED(rds_connect(fd, &peer) == 0); /* RDS_GET_MR is for that peer */
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20) == 0);
	set_timeout_ms(fd, SO_SNDTIMEO, PATIENCE_MS);
}

static struct rds_rdma_notify notices[NOTICES]; /* that have come, by their tokens */

bool has_ended(uint64_t token, int *status)
{
	const struct rds_rdma_notify *notice = &notices[token % NOTICES];

	*status = notice->status;
	return notice->user_token == token;
}

/* There may be several at once. */
static bool keep_notices(struct control *c)
{
	struct msghdr msg = { .msg_control = c->data, .msg_controllen = c->len };
	struct rds_rdma_notify notice;
	bool any = false;

	for (struct cmsghdr *at = CMSG_FIRSTHDR(&msg); at; at = CMSG_NXTHDR(&msg, at)) {
		if (at->cmsg_level != SOL_RDS || at->cmsg_type != RDS_CMSG_RDMA_STATUS)
			continue;
		memcpy(&notice, CMSG_DATA(at), sizeof(notice));
		notices[notice.user_token % NOTICES] = notice;
		any = true;
	}
	return any;
}

bool receive(struct event *event, int ms)
{
	struct control c;
	rds_rdma_cookie_t *cookie;
	ssize_t got;

	set_timeout_ms(fd, SO_RCVTIMEO, ms);
	got = recv_control(fd, &event->word, sizeof(event->word), &c, 0, NULL);
	if (got < 0)
		return false;
	cookie = control_find(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, sizeof(*cookie));
	event->cookie = cookie ? *cookie : 0;
	event->is_notice = keep_notices(&c);
	if (!event->is_notice && got != sizeof(event->word))
		wrong("size of a message", got);
	return true;
}

void say(const struct word *word, const struct control *control)
{
	static const struct control none;
	ssize_t sent;

	WAIT_UNTIL(PATIENCE_MS, (sent = send_control(fd, word, sizeof(*word), &peer, control ?: &none, 0)) >= 0 ||
					errno != EAGAIN);
	if (sent != sizeof(*word))
		wrong("sendmsg", sent < 0 ? errno : sent);
}

bool all_are(const char *from, size_t len, char value)
{
	for (size_t i = 0; i < len; i++)
		if (from[i] != value)
			return false;
	return true;
}

static pid_t start(void (*program)(int number), int number)
{
	uint64_t seed = random_next(&dice);
	pid_t child = fork();

	NEED(child >= 0);
	if (child)
		return child;
	dice.state = seed;
	program(number);
	_exit(1); /* they do not return */
}

/* How many of them end by themselves. */
static int ended(pid_t *children, int count)
{
	int status, good = 0;

	for (int i = 0; i < count; i++) {
		pid_t done = 0;

		WAIT_UNTIL(PATIENCE_MS, (done = waitpid(children[i], &status, WNOHANG)) != 0);
		if (!done)
			kill(children[i], SIGKILL);
		else if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			good++;
	}
	return good;
}

int main(int argc, char **argv)
{
	pid_t children[2 * PAIRS];
	int seconds;

	argc = ktap_start("rds rdma storm", argc, argv);
	NEED(argc >= 3);
	own_ip = argv[1];
	peer_ip = argv[2];
	dice.state = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)now_us();
	seconds = argc > 4 ? atoi(argv[4]) : 20;
	note("seed %llu, %d seconds", (unsigned long long)dice.state, seconds);
	fflush(stdout);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(counts != MAP_FAILED);
	end_ms = now_ms() + seconds * 1000;
	for (int i = 0; i < PAIRS; i++) {
		children[2 * i] = start(owner, i);
		children[2 * i + 1] = start(user, i);
	}
	nap_us(seconds * 1000000);
	EXPECT_EQ(ended(children, 2 * PAIRS), 2 * PAIRS, "rdma storm: each program ends");
	EXPECT_EQ(counts->wrong, 0, "rdma storm: no byte, value, message or status is wrong");
#define STORM_CHECK(name, text) \
	if (check(counts->name > 0, "rdma storm: %s", text)) \
		note("%lu", counts->name);
	STORM_COUNTS(STORM_CHECK)
#undef STORM_CHECK
	return ktap_finish();
}
