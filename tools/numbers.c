// SPDX-License-Identifier: GPL-2.0
#include "numbers.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static unsigned int suffix_shift(char letter)
{
	switch (letter) {
	case 'k':
	case 'K':
		return 10;
	case 'm':
	case 'M':
		return 20;
	case 'g':
	case 'G':
		return 30;
	default:
		return 0;
	}
}

bool parse_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *value)
{
	unsigned int shift;
	uint64_t number;
	char *end;

	/* strtoull accepts "-1" and leading blanks. */
	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	number = strtoull(text, &end, 0);
	if (errno)
		return false;
	shift = suffix_shift(*end);
	if (shift) {
		if (number > UINT64_MAX >> shift)
			return false;
		number <<= shift;
		end++;
	}
	if (*end || number < minimum || number > maximum)
		return false;
	*value = number;
	return true;
}

bool parse_duration(const char *text, uint64_t *nanoseconds)
{
	static const struct {
		const char *suffix;
		double unit_ns;
	} units[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "msec", 1e6 }, { "us", 1e3 }, { "usec", 1e3 },
	};
	double number;
	char *end;
	size_t i;

	/* strtod accepts blanks, signs, "inf" and "nan". */
	if (!isdigit((unsigned char)*text) && *text != '.')
		return false;
	number = strtod(text, &end);
	if (end == text)
		return false;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].suffix))
			continue;
		number *= units[i].unit_ns;
		/* A limit of a century keeps additions to a clock from wrapping. */
		if (!(number <= 3.2e18))
			return false;
		*nanoseconds = (uint64_t)(number + 0.5);
		return true;
	}
	return false;
}
