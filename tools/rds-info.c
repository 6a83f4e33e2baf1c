// SPDX-License-Identifier: GPL-2.0
/*
 * rds-info: prints the kernel's RDS tables, as text or as JSON.
 *
 * The kernel has most tables twice: one of IPv4 entries, and one with IPv6 addresses in which the IPv4
 * entries appear again. With -a both are read, the second for IPv6 entries only.
 */
#include "info-connections.h"
#include "info-delta.h"
#include "info-paths.h"
#include "info-tables.h"
#include "json.h"
#include "loaded.h"
#include "numbers.h"
#include "options.h"
#include "owners.h"
#include "program.h"
#include "rds-socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char program_name[] = "rds-info";

struct options {
	bool chosen[INFO_SOURCE_COUNT];	/* the tables that were asked for; none: all */
	bool all;
	bool json;
	bool delta;			/* counters since the last time */
	bool events;			/* instead of tables */
	uint64_t watch_ns;		/* show again after so long; 0: once */
};

/* Appends the contents of @table to @rows. */
static void decode_table(const struct info_source *source, const struct rds_info_table *table, bool ipv6,
			 struct info_rows *rows)
{
	size_t i;

	for (i = 0; i < table->count; i++) {
		if (!source->decode(table, i, ipv6, info_add_row(rows)))
			rows->count--;
	}
}

/* Opened for the first table that needs it. */
static int rds_fd = -1;

static int open_rds(void)
{
	if (rds_fd < 0)
		rds_fd = socket(AF_RDS, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (rds_fd < 0)
		die_error(errno, "opening an RDS socket");
	return rds_fd;
}

/* Returns false when the kernel has no such table. */
static bool read_source(const struct info_source *source, struct info_rows *rows)
{
	struct rds_info_table table;
	int error, fd;

	if (source->read && source->read(rows))
		return rows->count || !source->module || module_is_loaded(source->module);
	if (!source->item)
		return false;
	fd = open_rds();
	*rows = (struct info_rows){ 0 };
	error = rds_info_read(fd, source->item, &table);
	if (error == -ENOPROTOOPT)
		return false;
	if (error)
		die_error(error, "reading the %s", source->description);
	decode_table(source, &table, false, rows);
	rds_info_free(&table);
	if (!info_view.all_families || !source->item_ipv6)
		return true;
	error = rds_info_read(fd, source->item_ipv6, &table);
	/* A kernel without IPv6: the first table was complete. */
	if (error == -ENOPROTOOPT)
		return true;
	if (error)
		die_error(error, "reading the %s (IPv6)", source->description);
	decode_table(source, &table, true, rows);
	rds_info_free(&table);
	return true;
}

static void print_source(const struct info_source *source, const struct info_rows *rows)
{
	size_t i;

	source->print_header();
	for (i = 0; i < rows->count; i++)
		source->print(&rows->rows[i]);
}

static bool is_keyed(const struct info_source *source)
{
	return source->item == RDS_INFO_COUNTERS;
}

static void write_source(struct json *json, const struct info_source *source, const struct info_rows *rows)
{
	const bool keyed = is_keyed(source);
	size_t i;

	if (keyed)
		json_open_object(json, source->key);
	else
		json_open_array(json, source->key);
	for (i = 0; i < rows->count; i++) {
		if (!keyed)
			json_open_object(json, NULL);
		source->write(json, &rows->rows[i]);
		if (!keyed)
			json_close(json);
	}
	json_close(json);
}

/* The counters that the last show() has read. */
static struct info_rows counters_before;

/* Returns the number of requested tables that do not exist. */
static unsigned int show(const struct options *options)
{
	unsigned int missing = 0;
	struct json json;
	size_t i;

	owners_forget(); /* since the last time, sockets and processes have come and gone */
	if (options->json) {
		json_start(&json, stdout);
		json_open_object(&json, NULL);
	}
	for (i = 0; i < INFO_SOURCE_COUNT; i++) {
		const struct info_source *source = &info_sources[i];
		struct info_rows rows;

		if (!options->chosen[i] && (!options->all || source->if_chosen))
			continue;
		if (!read_source(source, &rows)) {
			if (options->json)
				json_null(&json, source->key);
			/* A missing transport is normal, unless its table was requested. */
			if (options->chosen[i]) {
				warn("this kernel has no table of %s (is its module loaded?)",
				     source->description);
				missing++;
			}
			continue;
		}
		if (options->delta && is_keyed(source)) {
			info_delta(&rows, &counters_before);
			if (!options->json)
				info_only_changed(&rows);
		}
		if (options->json)
			write_source(&json, source, &rows);
		else
			print_source(source, &rows);
		free(rows.rows);
	}
	if (options->json)
		json_close(&json);
	flush_output();
	return missing;
}

/* What the first difference is from. */
static void read_first_counters(void)
{
	size_t i;

	for (i = 0; i < INFO_SOURCE_COUNT; i++) {
		struct info_rows rows;

		if (!is_keyed(&info_sources[i]) || !read_source(&info_sources[i], &rows))
			continue;
		info_delta(&rows, &counters_before);
		free(rows.rows);
	}
}

static void pause_for(uint64_t ns)
{
	struct timespec left = { .tv_sec = ns / NS_PER_SECOND, .tv_nsec = ns % NS_PER_SECOND };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

static void usage(void)
{
	size_t i;

	fputs("Usage: rds-info [options]\n"
	      "Prints tables of the kernel's RDS. By default: all of them.\n\n",
	      stdout);
	for (i = 0; i < INFO_SOURCE_COUNT; i++)
		printf(" -%c            %s\n", info_sources[i].letter, info_sources[i].description);
	fputs("\n"
	      " -a            IPv6 too\n"
	      " -v            more: transport and paths of connections, limits of those over RDMA,\n"
	      "               how long messages of paths waited, owners of sockets\n"
	      "     --delta   counters as differences over an interval, only those that changed\n"
	      "     --watch[=INTERVAL]\n"
	      "               show again after each interval (1s) until interrupted\n"
	      "     --events  print changes of paths, and of connections of KCM, as they happen, until interrupted\n"
	      "               (hawser's modules only)\n"
	      "     --json    print a JSON document\n"
	      " -h, --help\n"
	      "     --version the version, and whose modules are loaded: hawser's or the kernel's own\n"
	      "\n"
	      "Exit status: 0 all tables shown, 1 no RDS in the kernel or no such table, 2 wrong usage.\n",
	      stdout);
}

enum { OPTION_DELTA = OPTION_FIRST_OWN, OPTION_EVENTS, OPTION_WATCH };

static const struct option long_options[] = {
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "delta", no_argument, NULL, OPTION_DELTA },
	{ "events", no_argument, NULL, OPTION_EVENTS },
	{ "watch", optional_argument, NULL, OPTION_WATCH },
	OPTIONS_OF_ALL,
	{ 0 },
};

/* Returns false when no table has @letter. */
static bool choose(int letter, bool *chosen)
{
	size_t i;

	for (i = 0; i < INFO_SOURCE_COUNT; i++) {
		if (info_sources[i].letter == letter) {
			chosen[i] = true;
			return true;
		}
	}
	return false;
}

#define SHORTEST_INTERVAL_NS (10 * NS_PER_MS)
#define LONGEST_INTERVAL_NS (24 * 3600 * NS_PER_SECOND)

static uint64_t interval_of(const char *text)
{
	uint64_t ns = NS_PER_SECOND;

	if (text && (!parse_duration(text, &ns) || ns < SHORTEST_INTERVAL_NS || ns > LONGEST_INTERVAL_NS))
		die_usage("--watch needs an interval of 10ms to a day, not '%s'", text);
	return ns;
}

static struct options read_command_line(int argc, char **argv)
{
	char letters[sizeof(LETTERS_OF_ALL "av") + INFO_SOURCE_COUNT] = LETTERS_OF_ALL "av";
	struct options options = { .all = true };
	int option;
	size_t i;

	for (i = 0; i < INFO_SOURCE_COUNT; i++)
		letters[sizeof(LETTERS_OF_ALL "av") - 1 + i] = info_sources[i].letter;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		if (choose(option, options.chosen)) {
			options.all = false;
			continue;
		}
		switch (option) {
		case 'a':
			info_view.all_families = true;
			break;
		case 'v':
			info_view.verbose = true;
			break;
		case OPTION_JSON:
			options.json = true;
			break;
		case OPTION_DELTA:
			options.delta = true;
			break;
		case OPTION_EVENTS:
			options.events = true;
			break;
		case OPTION_WATCH:
			options.watch_ns = interval_of(optarg);
			break;
		case OPTION_VERSION:
			print_version();
			print_loaded_modules();
			exit(EXIT_GOOD);
		default:
			obey_option_of_all(option, usage);
		}
	}
	no_arguments(argc, argv);
	return options;
}

/* The sockets of connections, for printing connections in full. */
static void read_paths(void)
{
	size_t i;

	free(info_view.tcp_sockets.rows);
	info_view.tcp_sockets = (struct info_rows){ 0 };
	for (i = 0; i < INFO_SOURCE_COUNT; i++) {
		if (info_sources[i].item == RDS_INFO_TCP_SOCKETS)
			read_source(&info_sources[i], &info_view.tcp_sockets);
	}
	tcp_sockets_sort(&info_view.tcp_sockets);
}

static bool shows_connections(const struct options *options)
{
	size_t i;

	for (i = 0; i < INFO_SOURCE_COUNT; i++) {
		if (info_sources[i].item == RDS_INFO_CONNECTIONS && options->chosen[i])
			return true;
	}
	return options->all;
}

int main(int argc, char **argv)
{
	struct options options = read_command_line(argc, argv);
	unsigned int missing;

	if (options.events && !paths_follow(options.json))
		die("this kernel reports no events (are hawser's modules loaded?)");
	if (options.delta) {
		read_first_counters();
		pause_for(options.watch_ns ? options.watch_ns : NS_PER_SECOND);
	}
	for (;;) {
		if (shows_connections(&options) && (info_view.verbose || options.json))
			read_paths();
		missing = show(&options);
		if (!options.watch_ns)
			break;
		pause_for(options.watch_ns);
	}
	free(counters_before.rows);
	free(info_view.tcp_sockets.rows);
	if (rds_fd >= 0)
		close(rds_fd);
	return missing ? EXIT_FAILED : EXIT_GOOD;
}
