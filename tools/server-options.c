// SPDX-License-Identifier: GPL-2.0
/*
 * The command line of kcm-server.
 */
#include "server-options.h"

#include "kcm-frame.h"
#include "kcm-socket.h"
#include "numbers.h"
#include "options.h"
#include "program.h"

#include <stdio.h>
#include <string.h>

static void usage(void)
{
	fputs("Usage: kcm-server [options]\n"
	      "Answers the requests of kcm-client: several workers share all connections over KCM.\n"
	      "\n"
	      " -a, --address address     listen on this address only (default: all)\n"
	      " -p, --port number         TCP port (default 16400)\n"
	      " -w, --workers number      threads that answer (default 4, at most 64)\n"
	      " -m, --max-message bytes   largest request (default 64K, at most 1M)\n"
	      "     --steering way        round-robin, least-loaded or cpu: which worker gets a request\n"
	      "     --timeout time        until a client that does not read or is gone is disconnected (default 30)\n"
	      "     --json                print a JSON document at the end\n"
	      " -h, --help, --version\n"
	      "\n"
	      "It runs until SIGINT or SIGTERM, then prints the counts of each worker.\n"
	      "Exit status: 0 ended by a signal, 1 a failure, 2 wrong usage.\n",
	      stdout);
}

static bool parse_steering(const char *text, int *steering)
{
	static const char *const names[] = {
		[KCM_STEER_ROUND_ROBIN] = "round-robin",
		[KCM_STEER_LEAST_LOADED] = "least-loaded",
		[KCM_STEER_CPU] = "cpu",
	};

	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++) {
		if (!strcmp(text, names[i])) {
			*steering = i;
			return true;
		}
	}
	return false;
}

enum { OPTION_STEERING = OPTION_FIRST_OWN, OPTION_TIMEOUT };

static const struct option long_options[] = {
	{ "address", required_argument, NULL, 'a' },
	{ "port", required_argument, NULL, 'p' },
	{ "workers", required_argument, NULL, 'w' },
	{ "max-message", required_argument, NULL, 'm' },
	{ "steering", required_argument, NULL, OPTION_STEERING },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "json", no_argument, NULL, OPTION_JSON },
	OPTIONS_OF_ALL,
	{ 0 },
};

static void read_option(struct server_settings *settings, int option)
{
	const char *problem;

	switch (option) {
	case 'a':
		problem = rds_address_parse(optarg, &settings->address);
		if (problem)
			die_usage("bad address '%s': %s", optarg, problem);
		break;
	case 'p':
		settings->port = option_number("port", 1, 65535);
		break;
	case 'w':
		settings->workers = option_number("number of workers", 1, SERVER_MAX_WORKERS);
		break;
	case 'm':
		settings->max_message = option_number("size", FRAME_MIN, FRAME_MAX);
		break;
	case OPTION_STEERING:
		if (!parse_steering(optarg, &settings->steering))
			die_usage("bad steering '%s': round-robin, least-loaded or cpu", optarg);
		break;
	case OPTION_TIMEOUT:
		if (!parse_duration(optarg, &settings->timeout_ns) || settings->timeout_ns < NS_PER_MS ||
		    settings->timeout_ns > 3600 * NS_PER_SECOND)
			die_usage("bad timeout '%s': 1ms to 3600", optarg);
		break;
	case OPTION_JSON:
		settings->json = true;
		break;
	default:
		obey_option_of_all(option, usage);
	}
}

void server_read_command_line(struct server_settings *settings, int argc, char **argv)
{
	int option;

	*settings = (struct server_settings){
		.address = { .ipv6 = { .sin6_family = AF_INET6 } },
		.port = FRAME_PORT,
		.workers = 4,
		.max_message = 64 << 10,
		.timeout_ns = 30 * NS_PER_SECOND,
	};
	while ((option = getopt_long(argc, argv, LETTERS_OF_ALL "a:p:w:m:", long_options, NULL)) != -1)
		read_option(settings, option);
	no_arguments(argc, argv);
}
