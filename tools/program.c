// SPDX-License-Identifier: GPL-2.0
#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void complain(const char *format, va_list arguments)
{
	/* Earlier output on stdout comes before the error, also when both go to one file. */
	fflush(stdout);
	fprintf(stderr, "%s: ", program_name);
	vfprintf(stderr, format, arguments);
}

void die_usage(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	fprintf(stderr, "\nTry '%s --help'.\n", program_name);
	exit(EXIT_USAGE);
}

void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(EXIT_FAILED);
}

/* Advice for an administrator, or NULL. */
static const char *hint(int error)
{
	switch (error) {
	case EAFNOSUPPORT:
		return "this kernel has no RDS; 'modprobe rds' loads it, 'modprobe rds_tcp' a transport";
	case EADDRNOTAVAIL:
		return "no RDS transport serves this address: is it one of this host's, and is a transport "
		       "loaded ('modprobe rds_tcp')?";
	default:
		return NULL;
	}
}

void die_error(int error, const char *format, ...)
{
	const char *advice;
	va_list arguments;

	error = abs(error);
	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	fprintf(stderr, ": %s\n", strerror(error));
	advice = hint(error);
	if (advice)
		fprintf(stderr, "%s: %s\n", program_name, advice);
	exit(EXIT_FAILED);
}

void print_version(void)
{
	printf("%s (hawser) %s\n", program_name, HAWSER_VERSION);
}

void warn(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void make_printable(char *text, size_t bytes)
{
	for (; bytes; text++, bytes--) {
		if (*text < 0x20 || *text > 0x7e)
			*text = '?';
	}
}

void flush_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		die("cannot write the output: %s", strerror(errno));
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}
