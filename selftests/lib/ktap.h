/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Test results in KTAP, one line a check, with its subject.
 *
 * Every program runs on two suites: "ours", and "kernel", the kernel's own modules. A check must hold on
 * both. A *difference* is a behaviour where the kernel's own is plainly wrong: the right behaviour must be
 * seen on ours, and the wrong one on the kernel's own, or the row is no longer true.
 */
#ifndef SELFTESTS_LIB_KTAP_H
#define SELFTESTS_LIB_KTAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum suite { SUITE_OURS, SUITE_KERNEL };

/** ktap_start - print the header; takes --suite ours|kernel (or $SUITE) out of argv, returns the new argc */
int ktap_start(const char *program, int argc, char **argv);

/** ktap_finish - print the plan and return the exit code of main() */
int ktap_finish(void);

/** ktap_suite - which modules are under test */
enum suite ktap_suite(void);

/** kernel_before - true if the running kernel is older than @major.@minor */
bool kernel_before(int major, int minor);

/** check - one result line, ok when @ok */
bool check(bool ok, const char *name, ...) __attribute__((format(printf, 2, 3)));

/**
 * differs - one result line of the difference @row of the protocol's file in Documentation/networking
 * @right: the right behaviour was seen
 */
void differs(bool right, const char *row, const char *name, ...) __attribute__((format(printf, 3, 4)));

/** differs_if - a difference that only some kernels show: where !@wrong_here the row is a plain check */
void differs_if(bool wrong_here, bool right, const char *row, const char *name, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * may_differ - a difference that the kernel's own shows by chance: there it is reported either way
 */
void may_differ(bool right, const char *row, const char *name, ...) __attribute__((format(printf, 3, 4)));

/** dangerous - true for modules that the test would crash, the kernel's own; it is skipped there as @row. */
bool dangerous(const char *row, const char *reason);

/** note - a diagnostic line, for the reader of a failure */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** bail_out - the test cannot continue: print why, exit with failure */
_Noreturn void bail_out(const char *file, int line, const char *what);

/** expected_errno - true if a call's result is as expected; @want 0 means success; notes others */
bool expected_errno(long ret, int err, int want);

/* A condition that the test itself needs, unlike a check of the subject. */
#define NEED(cond)                                           \
	do {                                                 \
		if (!(cond))                                 \
			bail_out(__FILE__, __LINE__, #cond); \
	} while (0)

/* A call's result as a condition for check() and differs(); @want 0 means success. */
#define GIVES(call, want)                            \
	({                                           \
		errno = 0;                           \
		long ret_ = (long)(call);            \
		expected_errno(ret_, errno, (want)); \
	})

#define EXPECT_ERRNO(call, want, ...) check(GIVES(call, want), __VA_ARGS__)
#define EXPECT_OK(call, ...) check(GIVES(call, 0), __VA_ARGS__)

#define EXPECT_EQ(got, want, ...)                                             \
	do {                                                                  \
		long long got_ = (long long)(got), want_ = (long long)(want); \
		if (!check(got_ == want_, __VA_ARGS__))                       \
			note("got %lld, expected %lld", got_, want_);         \
	} while (0)

#endif
