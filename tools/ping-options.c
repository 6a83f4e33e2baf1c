// SPDX-License-Identifier: GPL-2.0
/*
 * The command line of rds-ping.
 */
#include "ping-options.h"

#include "numbers.h"
#include "options.h"
#include "program.h"

#include <stdio.h>

#define DEFAULT_SOCKETS 8

static void usage(void)
{
	fputs("Usage: rds-ping [options] address\n"
	      "Sends empty RDS messages to port 0 of a host, whose kernel answers them.\n"
	      "\n"
	      " -c, --count number        stop after this many probes (default 0: when interrupted)\n"
	      " -i, --interval time       time between probes, in seconds or with ms or us (default 1)\n"
	      " -I, --source address      send from this address (default: by routing)\n"
	      " -Q, --tos number          type of service, 0 to 255\n"
	      " -W, --timeout time        how long to wait for an answer (default: interval, at least 1 s)\n"
	      " -S, --sockets number      spread the probes over this many sockets (default 8, at most 64)\n"
	      "     --transport name      tcp, ib or any (default any)\n"
	      "     --json                print a JSON document\n"
	      " -h, --help, --version\n"
	      "\n"
	      "Exit status: 0 at least one answer, 1 no answer or another failure, 2 wrong usage.\n",
	      stdout);
}

static void read_address(const char *what, const char *text, union rds_address *address)
{
	const char *problem = rds_address_parse(text, address);

	if (problem)
		die_usage("bad %s address '%s': %s", what, text, problem);
	if (rds_address_is_any(address))
		die_usage("bad %s address '%s': it must be a host's own address", what, text);
}

enum { OPTION_TRANSPORT = OPTION_FIRST_OWN };

static const struct option long_options[] = {
	{ "count", required_argument, NULL, 'c' },
	{ "interval", required_argument, NULL, 'i' },
	{ "source", required_argument, NULL, 'I' },
	{ "tos", required_argument, NULL, 'Q' },
	{ "timeout", required_argument, NULL, 'W' },
	{ "sockets", required_argument, NULL, 'S' },
	{ "transport", required_argument, NULL, OPTION_TRANSPORT },
	{ "json", no_argument, NULL, OPTION_JSON },
	OPTIONS_OF_ALL,
	{ 0 },
};

static void read_option(struct ping_settings *settings, int option)
{
	switch (option) {
	case 'c':
		if (!parse_number(optarg, 0, UINT64_MAX, &settings->count))
			die_usage("bad count '%s': a number, or 0 for no limit", optarg);
		break;
	case 'i':
		settings->interval_ns = option_time("interval", 0);
		break;
	case 'W':
		settings->timeout_ns = option_time("timeout", 1);
		break;
	case 'I':
		read_address("source", optarg, &settings->source);
		settings->has_source = true;
		break;
	case 'Q':
		settings->socket.tos = (unsigned int)option_number("type of service", 0, 255);
		break;
	case 'S':
		settings->sockets = option_number("number of sockets", 1, PING_MAX_SOCKETS);
		break;
	case OPTION_TRANSPORT:
		if (!rds_transport_parse(optarg, &settings->socket.transport))
			die_usage("bad transport '%s': tcp, ib or any", optarg);
		break;
	case OPTION_JSON:
		settings->json = true;
		break;
	default:
		obey_option_of_all(option, usage);
	}
}

void ping_read_command_line(struct ping_settings *settings, int argc, char **argv)
{
	char text[RDS_ADDRESS_TEXT_SIZE];
	int option, error;

	*settings = (struct ping_settings){
		.interval_ns = NS_PER_SECOND,
		.sockets = DEFAULT_SOCKETS,
		.socket = { .transport = RDS_TRANSPORT_ANY },
	};
	while ((option = getopt_long(argc, argv, LETTERS_OF_ALL "c:i:I:Q:W:S:", long_options, NULL)) != -1)
		read_option(settings, option);
	read_address("destination", only_address(argc, argv), &settings->destination);
	if (!settings->timeout_ns)
		settings->timeout_ns = settings->interval_ns > NS_PER_SECOND ? settings->interval_ns
									     : NS_PER_SECOND;
	if (settings->has_source) {
		if (settings->source.any.sa_family != settings->destination.any.sa_family)
			die_usage("source and destination must both be IPv4 or both be IPv6");
		return;
	}
	error = rds_local_address_towards(&settings->destination, &settings->source);
	if (error)
		die_error(error, "no route to %s", rds_address_format(&settings->destination, text));
}
