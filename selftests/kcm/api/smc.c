// SPDX-License-Identifier: GPL-2.0
/* A TCP socket whose file becomes one of SMC's (setsockopt TCP_ULP) while it is attached or unattached. */
#include "api.h"

#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/ioctl.h>

#define ROUNDS 2000

struct race {
	int tcp;
	pthread_barrier_t begin, end;
	bool over;
};

static void *make_smc(void *arg)
{
	struct race *race = arg;

	for (;;) {
		pthread_barrier_wait(&race->begin);
		if (race->over)
			return NULL;
		setsockopt(race->tcp, IPPROTO_TCP, TCP_ULP, "smc", 3);
		pthread_barrier_wait(&race->end);
	}
}

/* Returns how often the call failed with what is right in either order. */
static int rounds(struct race *race, int kcm, bool attaches)
{
	int program = parser_framed(), refused = 0;

	for (int i = 0; i < ROUNDS; i++) {
		NEED((race->tcp = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
		pthread_barrier_wait(&race->begin);
		if (attaches)
			refused += kcm_attach(kcm, race->tcp, program) < 0 && errno == EOPNOTSUPP;
		else
			refused += kcm_unattach(kcm, race->tcp) < 0 && errno == ENOENT;
		pthread_barrier_wait(&race->end);
		close(race->tcp);
	}
	close(program);
	return refused;
}

void api_smc(void)
{
	struct race race = { .over = false };
	int kcm = kcm_socket(HERE, SOCK_DGRAM), smc = socket(AF_SMC, SOCK_STREAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);
	bool taken = setsockopt(tcp, IPPROTO_TCP, TCP_ULP, "smc", 3) == 0;
	pthread_t other;

	close(smc);
	close(tcp);
	if (!taken)
		note("this kernel makes no TCP socket one of SMC's");
	if (!taken || dangerous("smc-socket", "the kernel's own gives back a file that the socket has lost")) {
		close(kcm);
		return;
	}
	NEED(pthread_barrier_init(&race.begin, NULL, 2) == 0 && pthread_barrier_init(&race.end, NULL, 2) == 0);
	NEED(pthread_create(&other, NULL, make_smc, &race) == 0);
	EXPECT_EQ(rounds(&race, kcm, true), ROUNDS, "smc: a socket that becomes SMC's is refused");
	EXPECT_EQ(rounds(&race, kcm, false), ROUNDS, "smc: and is not one to unattach");
	race.over = true;
	pthread_barrier_wait(&race.begin);
	pthread_join(other, NULL);
	close(kcm);
}
