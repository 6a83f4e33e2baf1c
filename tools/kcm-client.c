// SPDX-License-Identifier: GPL-2.0
/*
 * kcm-client: sends requests to kcm-server over several TCP connections, and checks every answer.
 *
 * Without --kcm it is an ordinary client: a thread for each connection. With it, workers share the
 * connections over KCM sockets of their own.
 */
#include "json.h"
#include "kcm-asker.h"
#include "kcm-frame.h"
#include "kcm-socket.h"
#include "options.h"
#include "program.h"
#include "rds-address.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char program_name[] = "kcm-client";

#define MAX_CONNECTIONS 256
#define MAX_WORKERS 64

struct settings {
	union rds_address server;
	uint64_t port, connections, requests, time_ns, min_size, max_size, window, timeout_ns;
	uint64_t workers; /* over KCM; 0: without it */
	bool json;
};

/* Over TCP there is an asker and a ledger for each connection; over KCM an asker for each worker, and one ledger. */
struct run {
	const struct settings *settings;
	int tcp[MAX_CONNECTIONS];
	int kcm;
	struct asker askers[MAX_CONNECTIONS];
	size_t asker_count;
	struct ledger ledgers[MAX_CONNECTIONS];
	size_t ledger_count;
	struct kcm_connection_stats stats[MAX_CONNECTIONS]; /* over KCM, at the end */
	int stats_count;
	struct ledger_counts counts;
	uint64_t failures;
	uint64_t took_ns;
};

static void usage(void)
{
	fputs("Usage: kcm-client [options] address\n"
	      "Sends requests to kcm-server over several connections and checks each answer.\n"
	      "\n"
	      " -p, --port number         TCP port of the server (default 16400)\n"
	      " -c, --connections number  TCP connections (default 4, at most 256)\n"
	      " -k, --kcm number          share them among this number of workers over KCM (default: without KCM)\n"
	      " -n, --requests number     requests for each connection (default 1000)\n"
	      " -T, --time time           send for this time, instead of a number of requests\n"
	      " -W, --window number       outstanding requests on each connection (default 32)\n"
	      "     --min-size bytes      of a message (default 16)\n"
	      "     --max-size bytes      of a message (default 16K, at most 1M)\n"
	      "     --timeout time        how long to wait for any answer (default 30)\n"
	      "     --json                print a JSON document\n"
	      " -h, --help, --version\n"
	      "\n"
	      "Exit status: 0 all answers arrived and were correct, 1 otherwise, 2 wrong usage.\n",
	      stdout);
}

/* ---- running */

static int connect_to(const struct settings *settings)
{
	union rds_address to = settings->server;
	char text[RDS_ADDRESS_TEXT_SIZE];
	int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	rds_address_set_port(&to, (uint16_t)settings->port);
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die("cannot open a TCP socket: %s", strerror(errno));
	if (connect(fd, &to.any, rds_address_size(&to)))
		die("cannot connect to %s, port %" PRIu64 ": %s", rds_address_format(&to, text), settings->port,
		    strerror(errno));
	return fd;
}

static struct ledger_plan plan_for(const struct settings *settings, uint64_t connections)
{
	uint64_t window = settings->window * connections;

	return (struct ledger_plan){
		.requests = settings->time_ns ? UINT64_MAX : settings->requests * connections,
		.until_ns = settings->time_ns ? now_ns() + settings->time_ns : 0,
		.window = window < LEDGER_MAX_WINDOW ? window : LEDGER_MAX_WINDOW,
		.min_size = settings->min_size,
		.max_size = settings->max_size,
		.in_order = !settings->workers,
	};
}

static struct asker *add_asker(struct run *run, int fd, struct ledger *ledger)
{
	struct asker *asker = &run->askers[run->asker_count++];

	*asker = (struct asker){ .ledger = ledger, .fd = fd, .timeout_ns = run->settings->timeout_ns };
	return asker;
}

/* Numbers of different connections are far apart, so an answer on the wrong connection is noticed. */
static void prepare_tcp(struct run *run)
{
	const struct ledger_plan plan = plan_for(run->settings, 1);

	run->ledger_count = run->settings->connections;
	for (size_t i = 0; i < run->ledger_count; i++) {
		ledger_start(&run->ledgers[i], &plan, (uint64_t)i << 40);
		add_asker(run, run->tcp[i], &run->ledgers[i]);
	}
}

static void prepare_kcm(struct run *run)
{
	const struct settings *settings = run->settings;
	const struct ledger_plan plan = plan_for(settings, settings->connections);
	int parser, stop = eventfd(0, EFD_CLOEXEC), error;

	if (stop < 0)
		die("eventfd: %s", strerror(errno));
	run->kcm = kcm_open();
	parser = kcm_load_parser(settings->max_size);
	error = kcm_set(run->kcm, KCM_MAX_MESSAGE, (int)settings->max_size);
	for (size_t i = 0; i < settings->connections && !error; i++)
		error = kcm_attach(run->kcm, run->tcp[i], parser);
	if (error)
		die("cannot attach a connection: %s", strerror(-error));
	run->ledger_count = 1;
	ledger_start(&run->ledgers[0], &plan, 0);
	for (uint64_t i = 0; i < settings->workers; i++) {
		int fd = i ? kcm_clone(run->kcm) : run->kcm;

		if (fd < 0)
			die("cannot clone a KCM socket: %s", strerror(-fd));
		add_asker(run, fd, &run->ledgers[0])->stop_fd = stop;
	}
}

static void ask(struct run *run)
{
	uint64_t started_ns = now_ns();

	for (size_t i = 0; i < run->asker_count; i++) {
		struct asker *asker = &run->askers[i];
		int error = pthread_create(&asker->thread, NULL, run->settings->workers ? ask_over_kcm : ask_over_tcp, asker);

		if (error)
			die("cannot start a thread: %s", strerror(error));
	}
	for (size_t i = 0; i < run->asker_count; i++)
		pthread_join(run->askers[i].thread, NULL);
	run->took_ns = now_ns() - started_ns;
	if (run->settings->workers)
		run->stats_count = kcm_connections(run->kcm, run->stats, MAX_CONNECTIONS);
	/* As without memory: the other results are there. */
	if (run->stats_count < 0)
		warn("cannot read the connections of KCM: %s", strerror(-run->stats_count));
}

static void sum_up(struct run *run)
{
	for (size_t i = 0; i < run->ledger_count; i++) {
		struct ledger_counts counts = ledger_result(&run->ledgers[i]);

		run->counts.requests += counts.requests;
		run->counts.request_bytes += counts.request_bytes;
		run->counts.answers += counts.answers;
		run->counts.answer_bytes += counts.answer_bytes;
		run->counts.unanswered += counts.unanswered;
		run->counts.strange += counts.strange;
		run->counts.damaged += counts.damaged;
		run->counts.disordered += counts.disordered;
	}
	for (size_t i = 0; i < run->asker_count; i++)
		run->failures += run->askers[i].failure != NULL;
}

static bool is_good(const struct run *run)
{
	const struct ledger_counts *c = &run->counts;

	return !run->failures && c->requests && !(c->unanswered | c->strange | c->damaged | c->disordered);
}

/* ---- reporting */

static void report_json(const struct run *run)
{
	const struct ledger_counts *c = &run->counts;
	struct json json;

	json_start(&json, stdout);
	json_open_object(&json, NULL);
	json_bool(&json, "good", is_good(run));
	json_bool(&json, "kcm", run->settings->workers != 0);
	json_decimal(&json, "seconds", (double)run->took_ns / 1e9);
	json_open_object(&json, "counts");
	json_unsigned(&json, "requests", c->requests);
	json_unsigned(&json, "request_bytes", c->request_bytes);
	json_unsigned(&json, "answers", c->answers);
	json_unsigned(&json, "answer_bytes", c->answer_bytes);
	json_unsigned(&json, "unanswered", c->unanswered);
	json_unsigned(&json, "strange", c->strange);
	json_unsigned(&json, "damaged", c->damaged);
	json_unsigned(&json, "disordered", c->disordered);
	json_close(&json);
	/* Threads: connections without KCM, workers with it. */
	json_open_array(&json, "threads");
	for (size_t i = 0; i < run->asker_count; i++) {
		json_open_object(&json, NULL);
		json_unsigned(&json, "requests", run->askers[i].requests);
		json_unsigned(&json, "answers", run->askers[i].answers);
		if (run->askers[i].failure)
			json_string(&json, "failure", run->askers[i].failure);
		json_close(&json);
	}
	json_close(&json);
	if (run->settings->workers) {
		json_open_array(&json, "connections");
		for (int i = 0; i < run->stats_count; i++) {
			json_open_object(&json, NULL);
			json_unsigned(&json, "requests", run->stats[i].tx_msgs);
			json_unsigned(&json, "answers", run->stats[i].rx_msgs);
			json_close(&json);
		}
		json_close(&json);
	}
	json_close(&json);
}

static void report(const struct run *run)
{
	const struct ledger_counts *c = &run->counts;
	double seconds = (double)run->took_ns / 1e9;

	for (size_t i = 0; i < run->asker_count; i++)
		printf("%s %zu: %" PRIu64 " requests, %" PRIu64 " answers\n", run->settings->workers ? "worker" : "connection",
		       i, run->askers[i].requests, run->askers[i].answers);
	for (int i = 0; i < run->stats_count; i++)
		printf("connection %d: %" PRIu64 " requests, %" PRIu64 " answers\n", i, (uint64_t)run->stats[i].tx_msgs,
		       (uint64_t)run->stats[i].rx_msgs);
	printf("%" PRIu64 " requests of %" PRIu64 " bytes, %" PRIu64 " answers of %" PRIu64 " bytes in %.3f s\n", c->requests,
	       c->request_bytes, c->answers, c->answer_bytes, seconds);
	printf("%" PRIu64 " unanswered, %" PRIu64 " strange, %" PRIu64 " damaged, %" PRIu64 " out of order\n", c->unanswered,
	       c->strange, c->damaged, c->disordered);
}

static void complain(const struct run *run)
{
	for (size_t i = 0; i < run->asker_count; i++) {
		const struct asker *asker = &run->askers[i];

		if (asker->failure)
			warn("%s %zu: %s%s%s", run->settings->workers ? "worker" : "connection", i, asker->failure,
			     asker->error ? ": " : "", asker->error ? strerror(asker->error) : "");
	}
}

/* ---- the command line */

enum { OPTION_MIN_SIZE = OPTION_FIRST_OWN, OPTION_MAX_SIZE, OPTION_TIMEOUT };

static const struct option long_options[] = {
	{ "port", required_argument, NULL, 'p' },
	{ "connections", required_argument, NULL, 'c' },
	{ "kcm", required_argument, NULL, 'k' },
	{ "requests", required_argument, NULL, 'n' },
	{ "time", required_argument, NULL, 'T' },
	{ "window", required_argument, NULL, 'W' },
	{ "min-size", required_argument, NULL, OPTION_MIN_SIZE },
	{ "max-size", required_argument, NULL, OPTION_MAX_SIZE },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "json", no_argument, NULL, OPTION_JSON },
	OPTIONS_OF_ALL,
	{ 0 },
};

static void read_option(struct settings *settings, int option)
{
	switch (option) {
	case 'p':
		settings->port = option_number("port", 1, 65535);
		break;
	case 'c':
		settings->connections = option_number("number of connections", 1, MAX_CONNECTIONS);
		break;
	case 'k':
		settings->workers = option_number("number of workers", 1, MAX_WORKERS);
		break;
	case 'n':
		settings->requests = option_number("number of requests", 1, UINT32_MAX);
		break;
	case 'T':
		settings->time_ns = option_time("time", 1);
		break;
	case 'W':
		settings->window = option_number("window", 1, LEDGER_MAX_WINDOW);
		break;
	case OPTION_MIN_SIZE:
		settings->min_size = option_number("size", FRAME_MIN, FRAME_MAX);
		break;
	case OPTION_MAX_SIZE:
		settings->max_size = option_number("size", FRAME_MIN, FRAME_MAX);
		break;
	case OPTION_TIMEOUT:
		settings->timeout_ns = option_time("timeout", 1);
		break;
	case OPTION_JSON:
		settings->json = true;
		break;
	default:
		obey_option_of_all(option, usage);
	}
}

static void read_command_line(struct settings *settings, int argc, char **argv)
{
	const char *problem, *address;
	int option;

	while ((option = getopt_long(argc, argv, LETTERS_OF_ALL "p:c:k:n:T:W:", long_options, NULL)) != -1)
		read_option(settings, option);
	address = only_address(argc, argv);
	problem = rds_address_parse(address, &settings->server);
	if (problem)
		die_usage("bad address '%s': %s", address, problem);
	if (settings->min_size > settings->max_size)
		die_usage("the smallest size is larger than the largest");
}

int main(int argc, char **argv)
{
	struct settings settings = {
		.port = FRAME_PORT,
		.connections = 4,
		.requests = 1000,
		.window = 32,
		.min_size = FRAME_MIN,
		.max_size = 16 << 10,
		.timeout_ns = 30 * NS_PER_SECOND,
	};
	static struct run run;

	read_command_line(&settings, argc, argv);
	run.settings = &settings;
	for (uint64_t i = 0; i < settings.connections; i++)
		run.tcp[i] = connect_to(&settings);
	(settings.workers ? prepare_kcm : prepare_tcp)(&run);
	ask(&run);
	sum_up(&run);
	(settings.json ? report_json : report)(&run);
	flush_output();
	complain(&run);
	return is_good(&run) ? EXIT_GOOD : EXIT_FAILED;
}
