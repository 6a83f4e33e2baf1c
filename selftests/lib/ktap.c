// SPDX-License-Identifier: GPL-2.0
#include "ktap.h"

#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static enum suite suite = SUITE_OURS;
static unsigned int count, failures;

static void set_suite(const char *name)
{
	if (!strcmp(name, "ours")) {
		suite = SUITE_OURS;
	} else if (!strcmp(name, "kernel")) {
		suite = SUITE_KERNEL;
	} else {
		fprintf(stderr, "unknown suite '%s': ours or kernel\n", name);
		exit(2);
	}
}

int ktap_start(const char *program, int argc, char **argv)
{
	const char *env = getenv("SUITE");
	int out = 1;

	/* A crash must not swallow the lines before it, nor a fork repeat them. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (env && *env)
		set_suite(env);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--suite") && i + 1 < argc)
			set_suite(argv[++i]);
		else
			argv[out++] = argv[i];
	}
	if (argc)
		argv[out] = NULL;
	printf("KTAP version 1\n# %s, suite %s\n", program, suite == SUITE_OURS ? "ours" : "kernel");
	return out;
}

int ktap_finish(void)
{
	printf("1..%u\n# %u passed, %u failed\n", count, count - failures, failures);
	fflush(stdout);
	/* A program that checked nothing has not passed. */
	return failures || !count ? 1 : 0;
}

enum suite ktap_suite(void)
{
	return suite;
}

bool kernel_before(int major, int minor)
{
	struct utsname name;
	int have_major, have_minor;

	NEED(uname(&name) == 0);
	NEED(sscanf(name.release, "%d.%d", &have_major, &have_minor) == 2);
	return have_major != major ? have_major < major : have_minor < minor;
}

static void result(bool ok, const char *row, const char *suffix, const char *name, va_list args)
{
	printf("%s %u ", ok ? "ok" : "not ok", ++count);
	if (row)
		printf("%s: ", row);
	vprintf(name, args);
	printf("%s\n", suffix);
	if (!ok)
		failures++;
}

bool check(bool ok, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	result(ok, NULL, "", name, args);
	va_end(args);
	return ok;
}

static void difference(bool wrong_here, bool right, const char *row, const char *name, va_list args)
{
	if (suite == SUITE_OURS || !wrong_here)
		result(right, row, "", name, args);
	else
		result(!right, row, right ? " # difference not seen" : " # difference shown", name, args);
}

void differs(bool right, const char *row, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	difference(true, right, row, name, args);
	va_end(args);
}

void differs_if(bool wrong_here, bool right, const char *row, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	difference(wrong_here, right, row, name, args);
	va_end(args);
}

void may_differ(bool right, const char *row, const char *name, ...)
{
	va_list args;

	va_start(args, name);
	if (suite == SUITE_OURS)
		result(right, row, "", name, args);
	else
		result(true, row, right ? " # difference by chance, not this time" : " # difference shown",
		       name, args);
	va_end(args);
}

bool dangerous(const char *row, const char *reason)
{
	if (suite == SUITE_OURS)
		return false;
	printf("ok %u %s # SKIP %s\n", ++count, row, reason);
	return true;
}

void note(const char *fmt, ...)
{
	va_list args;

	printf("# ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
}

void bail_out(const char *file, int line, const char *what)
{
	printf("Bail out! %s:%d: %s (errno %d, %s)\n", file, line, what, errno, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static const char *errno_name(int err)
{
	const char *name = err ? strerrorname_np(err) : "success";

	return name ? name : "an unknown errno";
}

bool expected_errno(long ret, int err, int want)
{
	int got = ret < 0 ? err : 0;

	if (got != want)
		note("got %s, expected %s", errno_name(got), errno_name(want));
	return got == want;
}
