// SPDX-License-Identifier: GPL-2.0
#include "options.h"

#include "numbers.h"
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void obey_option_of_all(int option, void (*usage)(void))
{
	switch (option) {
	case 'h':
		usage();
		exit(EXIT_GOOD);
	case OPTION_VERSION:
		print_version();
		exit(EXIT_GOOD);
	default:
		fprintf(stderr, "Try '%s --help'.\n", program_name);
		exit(EXIT_USAGE);
	}
}

uint64_t option_number(const char *what, uint64_t minimum, uint64_t maximum)
{
	uint64_t value;

	if (!parse_number(optarg, minimum, maximum, &value))
		die_usage("bad %s '%s': %" PRIu64 " to %" PRIu64, what, optarg, minimum, maximum);
	return value;
}

uint64_t option_time(const char *what, uint64_t minimum)
{
	uint64_t ns;

	if (!parse_duration(optarg, &ns) || ns < minimum)
		die_usage("bad %s '%s': seconds, or a number with ms or us", what, optarg);
	return ns;
}

const char *only_address(int argc, char **argv)
{
	if (optind == argc)
		die_usage("which address?");
	if (optind + 1 < argc)
		die_usage("one address at a time, not '%s' too", argv[optind + 1]);
	return argv[optind];
}

void no_arguments(int argc, char **argv)
{
	if (optind < argc)
		die_usage("unexpected argument '%s'", argv[optind]);
}
