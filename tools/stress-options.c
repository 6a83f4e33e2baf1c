// SPDX-License-Identifier: GPL-2.0
/*
 * The options of rds-stress: one table for the parser, the help text, the exchange with the other
 * side and --show-params.
 */
#include "stress.h"

#include "numbers.h"
#include "options.h"
#include "program.h"
#include "rds-socket.h"
#include "stress-message.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct option_entry {
	const char *name;
	char letter;			/* or 0 */
	bool is_flag;			/* takes no argument */
	bool shared;			/* the active side's value applies to both */
	size_t offset;
	uint64_t minimum;
	uint64_t maximum;
	const char *argument;
	const char *help;
};

#define FIELD(name) offsetof(struct stress_options, name)
#define LOCAL_FLAG(name, letter, field, help) \
	{ \
		name, letter, true, false, FIELD(field), 0, 1, NULL, help \
	}
#define LOCAL(name, letter, field, min, max, argument, help) \
	{ \
		name, letter, false, false, FIELD(field), min, max, argument, help \
	}
#define SHARED_FLAG(name, letter, field, help) \
	{ \
		name, letter, true, true, FIELD(field), 0, 1, NULL, help \
	}
#define SHARED(name, letter, field, min, max, argument, help) \
	{ \
		name, letter, false, true, FIELD(field), min, max, argument, help \
	}

#define MAX_DEPTH 65535
#define MAX_SECONDS 1000000000

static const struct option_entry entries[] = {
	SHARED("port", 'p', port, 1, 65000, "port", "first port (default 4000)"),
	SHARED("ack-bytes", 'a', ack_bytes, STRESS_HEADER_SIZE, RDS_MAX_MESSAGE, "bytes",
	       "length of an acknowledgement (default: a header alone)"),
	SHARED("req-bytes", 'q', request_bytes, STRESS_HEADER_SIZE, RDS_MAX_MESSAGE, "bytes",
	       "length of a request (default 1024)"),
	SHARED_FLAG("one-way", 'o', one_way, "only the active side sends requests"),
	SHARED("depth", 'd', depth, 1, MAX_DEPTH, "number", "outstanding requests to each task (default 1)"),
	SHARED("tasks", 't', tasks, 1, STRESS_MAX_TASKS, "number", "tasks on each side (default 1)"),
	SHARED("time", 'T', run_seconds, 0, MAX_SECONDS, "seconds",
	       "duration; 0, the default: until interrupted"),
	/* Shared, because each side waits for the other one's end. */
	SHARED("drain-time", 0, drain_seconds, 1, 3600, "seconds",
	       "time limit for the last acknowledgements (default 10)"),
	SHARED("tos", 'Q', tos, 0, 255, "number", "type of service"),
	SHARED_FLAG("verify", 'v', verify, "fill messages with a pattern and check it"),
	SHARED("use-cong-monitor", 0, congestion_monitor, 0, 1, "0|1",
	       "let the kernel report ports whose congestion ended (default 1)"),
	SHARED_FLAG("zerocopy", 0, zerocopy, "send requests with MSG_ZEROCOPY"),
	SHARED("rdma-bytes", 'D', rdma_bytes, 0, RDS_MAX_MESSAGE, "bytes",
	       "size of an RDMA buffer; 0: no RDMA"),
	SHARED("rdma-buffers", 'I', rdma_buffers, 1, 512, "number", "buffers in one operation (default 1)"),
	SHARED("rdma-mode", 'M', rdma_mode, 0, 2, "0|1|2", "0 read and write, the default; 1 read; 2 write"),
	SHARED("rdma-use-once", 0, rdma_use_once, 0, 1, "0|1", "let the kernel release memory after its use"),
	SHARED("rdma-use-get-mr", 0, rdma_use_get_mr, 0, 1, "0|1",
	       "register memory by RDS_GET_MR_FOR_DEST, not with the message"),
	SHARED("rdma-use-fence", 0, rdma_use_fence, 0, 1, "0|1", "fence RDMA reads (default 1)"),
	SHARED("rdma-use-notify", 0, rdma_use_notify, 0, 1, "0|1",
	       "has no effect: completions are always reported"),
	SHARED("rdma-cache-mrs", 0, rdma_cache_mrs, 0, 1, "0|1", "register memory once and use it again"),
	SHARED("rdma-alignment", 0, rdma_alignment, 0, 4095, "bytes",
	       "start buffers off a page by this much"),
	LOCAL_FLAG("report-cpu", 'c', report_cpu, "show the load of this host's processors"),
	LOCAL_FLAG("rtprio", 'R', realtime, "run the parent with real-time priority"),
	LOCAL_FLAG("trace", 'V', trace, "print a trace"),
	LOCAL_FLAG("report-summary", 'z', summary_only, "print only the summary"),
	LOCAL_FLAG("show-params", 0, show_parameters, "print the options"),
	LOCAL_FLAG("show-perfdata", 0, show_perfdata,
		   "print lines of comma-separated values, marked with ::"),
	LOCAL_FLAG("show-histogram", 0, show_histogram, "print a histogram of round-trip times"),
	LOCAL("show-outliers", 0, outlier_us, 1, UINT32_MAX, "usec", "report round trips that took longer"),
	LOCAL("connect-retries", 0, connect_retries, 0, MAX_SECONDS, "number",
	      "retry once a second when the connection is refused (default 0)"),
	LOCAL("warm-up", 0, warm_up_seconds, 0, 3600, "seconds", "run this long before counting (default 1)"),
	LOCAL_FLAG("json", 0, json, "print a JSON document"),
	/* Set by the programs: no help text. */
	SHARED("transport-code", 0, transport, 0, RDS_TRANS_COUNT, NULL, NULL),
	SHARED("run-id", 0, run_id, 0, UINT32_MAX, NULL, NULL),
};

#define ENTRY_COUNT (sizeof(entries) / sizeof(entries[0]))

enum { OPTION_TRANSPORT = OPTION_FIRST_OWN, OPTION_FIRST_ENTRY };

static uint64_t *field_of(struct stress_options *options, const struct option_entry *entry)
{
	return (uint64_t *)((char *)options + entry->offset);
}

static uint64_t value_of(const struct stress_options *options, const struct option_entry *entry)
{
	return *(const uint64_t *)((const char *)options + entry->offset);
}

void stress_options_each(const struct stress_options *options, bool shared_only,
			 void (*visit)(const char *name, uint64_t value, void *context), void *context)
{
	size_t i;

	for (i = 0; i < ENTRY_COUNT; i++) {
		if (entries[i].shared || !shared_only)
			visit(entries[i].name, value_of(options, &entries[i]), context);
	}
}

bool stress_options_set_shared(struct stress_options *options, const char *name, uint64_t value)
{
	size_t i;

	for (i = 0; i < ENTRY_COUNT; i++) {
		const struct option_entry *entry = &entries[i];

		if (!entry->shared || strcmp(entry->name, name))
			continue;
		if (value < entry->minimum || value > entry->maximum)
			return false;
		*field_of(options, entry) = value;
		return true;
	}
	return false;
}

static void print_help(void)
{
	size_t i;

	puts("Usage: rds-stress [options]                  wait for the other side\n"
	     "       rds-stress -s address [options]       connect to it, and send it the options\n"
	     "Tasks on two hosts send each other requests over RDS and acknowledge them.\n");
	printf(" %-4s%-36s%s\n", "-r,", "--recv-addr address", "use this local address");
	printf(" %-4s%-36s%s\n", "-s,", "--send-addr address", "connect to this address");
	for (i = 0; i < ENTRY_COUNT; i++) {
		const struct option_entry *entry = &entries[i];
		char letter[4] = "";
		char text[64];

		if (!entry->help)
			continue;
		if (entry->letter)
			snprintf(letter, sizeof(letter), "-%c,", entry->letter);
		snprintf(text, sizeof(text), "--%s %s", entry->name, entry->argument ? entry->argument : "");
		printf(" %-4s%-36s%s\n", letter, text, entry->help);
	}
	printf(" %-4s%-36s%s\n", "", "--transport tcp|ib|any", "send over this transport (default any)");
	puts(" -h, --help, --version\n"
	     "\n"
	     "Bytes may have a suffix K, M or G. Exit status: 0 all messages arrived once and\n"
	     "undamaged, 1 they did not or another failure occurred, 2 wrong usage.");
}

/* The options for getopt_long. */
struct getopt_tables {
	struct option long_options[ENTRY_COUNT + 6];
	char short_options[2 * ENTRY_COUNT + sizeof(LETTERS_OF_ALL "r:s:")];
};

static void fill_getopt_tables(struct getopt_tables *tables)
{
	static const struct option others[] = {
		{ "recv-addr", required_argument, NULL, 'r' },
		{ "send-addr", required_argument, NULL, 's' },
		{ "transport", required_argument, NULL, OPTION_TRANSPORT },
		OPTIONS_OF_ALL,
	};
	struct option *next = tables->long_options;
	char *letter = tables->short_options;
	size_t i;

	memset(tables, 0, sizeof(*tables));
	memcpy(next, others, sizeof(others));
	next += sizeof(others) / sizeof(others[0]);
	letter = stpcpy(letter, LETTERS_OF_ALL "r:s:");
	for (i = 0; i < ENTRY_COUNT; i++) {
		const struct option_entry *entry = &entries[i];

		if (!entry->help)
			continue;
		*next++ = (struct option){ entry->name, entry->is_flag ? no_argument : required_argument,
					   NULL, OPTION_FIRST_ENTRY + (int)i };
		if (entry->letter) {
			*letter++ = entry->letter;
			if (!entry->is_flag)
				*letter++ = ':';
		}
	}
}

static const struct option_entry *find_entry(int option)
{
	size_t i;

	if (option >= OPTION_FIRST_ENTRY)
		return &entries[option - OPTION_FIRST_ENTRY];
	for (i = 0; i < ENTRY_COUNT; i++) {
		if (entries[i].letter && entries[i].letter == option)
			return &entries[i];
	}
	return NULL;
}

static void read_address(const char *what, union rds_address *address)
{
	const char *problem = rds_address_parse(optarg, address);

	if (problem)
		die_usage("bad %s address '%s': %s", what, optarg, problem);
}

static void read_entry(struct stress_options *options, const struct option_entry *entry)
{
	uint64_t *field = field_of(options, entry);

	if (entry->is_flag)
		*field = 1;
	else if (!parse_number(optarg, entry->minimum, entry->maximum, field))
		die_usage("bad value '%s' for --%s: %" PRIu64 " to %" PRIu64, optarg, entry->name,
			  entry->minimum, entry->maximum);
}

static void read_other(struct stress_options *options, int option)
{
	int transport;

	switch (option) {
	case 'r':
		read_address("local", &options->local);
		options->has_local = !rds_address_is_any(&options->local);
		break;
	case 's':
		read_address("remote", &options->remote);
		if (rds_address_is_any(&options->remote))
			die_usage("bad remote address '%s': it must be a host's own address", optarg);
		options->active = true;
		break;
	case OPTION_TRANSPORT:
		if (!rds_transport_parse(optarg, &transport))
			die_usage("bad transport '%s': tcp, ib or any", optarg);
		options->transport = (uint64_t)(transport + 1);
		break;
	default:
		obey_option_of_all(option, print_help);
	}
}

const char *stress_options_problem(const struct stress_options *options)
{
	if (options->port + 2 * options->tasks > UINT16_MAX)
		return "the ports of so many tasks do not fit above the first one";
	if (options->rdma_bytes * options->rdma_buffers > RDS_MAX_MESSAGE)
		return "an RDMA operation carries at most 1 MiB: fewer buffers or smaller ones";
	if (options->rdma_use_once && options->rdma_cache_mrs)
		return "memory that is used once cannot be used again: --rdma-use-once or --rdma-cache-mrs";
	if (options->tasks * options->depth > 1u << 20)
		return "too many requests at once (tasks times depth)";
	return NULL;
}

void stress_read_command_line(struct stress_options *options, int argc, char **argv)
{
	struct getopt_tables tables;
	const char *problem;
	int option;

	*options = (struct stress_options){
		.port = STRESS_DEFAULT_PORT,
		.tasks = 1,
		.depth = 1,
		.request_bytes = 1024,
		.ack_bytes = STRESS_HEADER_SIZE,
		.congestion_monitor = 1,
		.rdma_buffers = 1,
		.rdma_use_fence = 1,
		.rdma_use_notify = 1,
		.warm_up_seconds = 1,
		.drain_seconds = 10,
	};
	fill_getopt_tables(&tables);
	while ((option = getopt_long(argc, argv, tables.short_options, tables.long_options, NULL)) != -1) {
		const struct option_entry *entry = find_entry(option);

		if (entry)
			read_entry(options, entry);
		else
			read_other(options, option);
	}
	no_arguments(argc, argv);
	if (options->active && options->has_local &&
	    options->local.any.sa_family != options->remote.any.sa_family)
		die_usage("both addresses must be IPv4 or both IPv6");
	problem = stress_options_problem(options);
	if (problem)
		die_usage("%s", problem);
}

uint16_t stress_task_port(const struct stress_options *options, bool of_remote, unsigned int index)
{
	uint64_t port = options->port + 1 + index;

	/* On one host the two sides cannot have the same ports; the active one moves up. */
	if (rds_address_same_host(&options->local, &options->remote) && options->active != of_remote)
		port += options->tasks;
	return (uint16_t)port;
}
