// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz [SEED [SECONDS]]
 *
 * SEED decides what each thread calls, in which order and with what; not how the threads interleave.
 */
#include "fuzz.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static int64_t end_ms, late_ms;

static struct caller callers[CALLERS];
static pthread_t threads[CALLERS];
static int running;

bool over(void)
{
	int64_t now = now_ms();

	return now >= end_ms && (world_was_changed() || now >= late_ms);
}

void any_call(struct caller *c)
{
	switch (pick(c, 100)) {
	case 0 ... 31:
		return call_send(c);
	case 32 ... 63:
		return call_receive(c);
	case 64 ... 72:
		return call_option(c);
	case 73 ... 78:
		return call_info(c);
	case 79 ... 83:
		return call_names(c);
	case 84 ... 88:
		return call_wait(c);
	case 89 ... 92:
		return call_other(c);
	case 93 ... 96:
		return call_socket(c);
	case 97 ... 98:
		return call_stranger(c);
	default:
		return chance(c, 5) ? call_process(c) : call_receive(c);
	}
}

static void *run(void *arg)
{
	struct caller *c = arg;

	while (!over())
		any_call(c);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void start_caller(struct caller *c, uint64_t seed)
{
	c->random.state = seed;
	c->inbox = mmap(NULL, LARGEST + CANARY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	c->scratch = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(c->inbox != MAP_FAILED && c->scratch != MAP_FAILED);
	memset(c->scratch, 0x55, LARGEST);
	NEED(pthread_create(&threads[c - callers], NULL, run, c) == 0);
}

static void ignore(int number)
{
	(void)number;
}

/* One signal whose calls are restarted, one whose calls are not. */
static void take_signals(void)
{
	struct sigaction restart = { .sa_handler = ignore, .sa_flags = SA_RESTART }, fail = { .sa_handler = ignore };

	NEED(sigaction(SIGUSR1, &restart, NULL) == 0 && sigaction(SIGUSR2, &fail, NULL) == 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, SIG_IGN);
}

/* Interrupts one caller after the other until all are done, and sees to it that none stays where it is. */
static bool watch(struct random *r)
{
	unsigned long calls[CALLERS] = { 0 };
	int64_t since[CALLERS];

	for (int i = 0; i < CALLERS; i++)
		since[i] = now_ms();
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		int i = random_below(r, CALLERS);
		unsigned long now = __atomic_load_n(&callers[i].calls, __ATOMIC_RELAXED);

		pthread_kill(threads[i], over() || random_below(r, 2) ? SIGUSR2 : SIGUSR1);
		nap_us(random_below(r, 4000));
		if (calls[i] != now) {
			calls[i] = now;
			since[i] = now_ms();
		} else if (now_ms() - since[i] > 2 * SOON_MS) {
			return check(false, "each call returns; one did not: %s", kind_name(callers[i].doing));
		}
	}
	return check(true, "each call returns");
}

static bool storm(uint64_t seed)
{
	struct random r = { seed };
	uint64_t vandals_seed = random_next(&r);
	pthread_t helpers[2];

	callers[0].random.state = seed;
	pool_open(&callers[0]);
	running = CALLERS;
	for (int i = 0; i < CALLERS; i++)
		start_caller(&callers[i], random_next(&r));
	NEED(pthread_create(&helpers[0], NULL, vandal, &vandals_seed) == 0);
	NEED(pthread_create(&helpers[1], NULL, janitor, NULL) == 0);
	if (!watch(&r))
		return false;
	for (int i = 0; i < CALLERS; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < 2; i++)
		NEED(pthread_join(helpers[i], NULL) == 0);
	return true;
}

/* What the kernel says that it did: that calls worked does not tell how far they went. */
static void reached(void)
{
	static const char *const counters[] = {
		"conn_reset",	      "recv_drop_no_sock",    "recv_delivered",	 "recv_ping",
		"send_pong",	      "send_queue_full",      "send_queued",	     "copy_to_user",	 "copy_from_user",
		"cong_update_queued", "cong_update_received", "cong_send_error",     "cong_send_blocked", "recv_stalled",
		"recv_garbage",
	};

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		unsigned long long count = 0;

		for (int home = AT_HERE; home < AT_DOOMED; home++)
			count += rds_counter(home_ns(home), counters[i]);
		check(count, "counter %s moved: %llu", counters[i], count);
	}
}

static int sockets_left(int ns)
{
	static struct rds_info_socket all[200];
	socklen_t len = sizeof(all);
	int fd = rds_socket(ns);

	NEED(getsockopt(fd, SOL_RDS, RDS_INFO_SOCKETS, all, &len) == sizeof(all[0]));
	close(fd);
	return len / sizeof(all[0]);
}

static void afterwards(void)
{
	unsigned long calls = 0, leaked = 0, wrong_ones = 0;

	for (int i = 0; i < CALLERS; i++) {
		calls += callers[i].calls;
		leaked += callers[i].leaked;
		wrong_ones += callers[i].wrong;
	}
	note("%lu calls", calls);
	check(!leaked, "no errno of the kernel's own");
	check(!wrong_ones, "no result that cannot be");
	for (int home = AT_HERE; home < AT_DOOMED; home++)
		check(WAIT_UNTIL(SOON_MS, sockets_left(home_ns(home)) == 0), "no socket is left at host %d", home);
	check(all_is_well(), "all is well with fresh sockets");
}

int main(int argc, char **argv)
{
	uint64_t seed;
	int seconds;

	argc = ktap_start("rds fuzz", argc, argv);
	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)now_us();
	seconds = argc > 2 ? atoi(argv[2]) : 25;
	note("seed %llu, %d seconds", (unsigned long long)seed, seconds);
	take_signals();
	memory_open();
	others_open();
	bad_pointer();
	read_only_page();
	world_open(seed);
	end_ms = now_ms() + stretched(seconds * 1000);
	late_ms = end_ms + stretched(seconds * 1000);
	if (!storm(seed)) {
		fflush(stdout);
		_exit(1);
	}
	pool_close();
	tally_print(callers, CALLERS);
	afterwards();
	reached();
	world_close();
	return ktap_finish();
}
