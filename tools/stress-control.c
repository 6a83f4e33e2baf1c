// SPDX-License-Identifier: GPL-2.0
#include "stress-control.h"

#include "listener.h"
#include "numbers.h"
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING "hawser rds-stress 1"

/* Time limit for an answer of the other side. */
#define ANSWER_MS 10000

/* How long the passive side lets the other one speak first, and the active side waits for a greeting. */
#define SILENCE_MS 100
#define GREETING_MS 3000

static void print_progress(const struct stress_options *options, const char *format, ...)
{
	va_list arguments;

	/* Keep the JSON document valid. */
	if (options->json)
		return;
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	fflush(stdout);
}

/* Takes the addresses from the connection itself, so they are certainly correct. */
static void learn_addresses(struct stress_control *control, struct stress_options *options)
{
	union rds_address local = { 0 }, remote = { 0 };
	socklen_t local_size = sizeof(local), remote_size = sizeof(remote);

	if (getsockname(control->fd, &local.any, &local_size) ||
	    getpeername(control->fd, &remote.any, &remote_size))
		die("reading the addresses of the control connection: %s", strerror(errno));
	/* A socket for both families reports mapped IPv4 addresses. */
	if (local.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&local.ipv6.sin6_addr)) {
		rds_address_from_ipv6(&local, local.ipv6.sin6_addr, 0);
		rds_address_from_ipv6(&remote, remote.ipv6.sin6_addr, 0);
	}
	rds_address_set_port(&local, 0);
	rds_address_set_port(&remote, 0);
	options->local = local;
	options->remote = remote;
	control->used = 0;
}

void stress_control_accept(struct stress_control *control, struct stress_options *options)
{
	union rds_address address = options->local;
	char text[RDS_ADDRESS_TEXT_SIZE];
	int listener;

	if (!options->has_local)
		rds_address_from_ipv6(&address, in6addr_any, 0);
	rds_address_set_port(&address, (uint16_t)options->port);
	listener = listen_on(&address, 0, 1);
	if (listener < 0)
		die("listening on %s port %u: %s", rds_address_format(&address, text),
		    rds_address_port(&address), strerror(errno));
	print_progress(options, "waiting for incoming connection on %s port %u\n", rds_address_format(&address, text),
	     rds_address_port(&address));
	do {
		control->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	} while (control->fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (control->fd < 0)
		die("accepting the control connection: %s", strerror(errno));
	close(listener);
	learn_addresses(control, options);
	print_progress(options, "accepted connection from %s\n", rds_address_format(&options->remote, text));
}

static bool worth_retrying(int error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT;
}

void stress_control_connect(struct stress_control *control, struct stress_options *options)
{
	union rds_address to = options->remote;
	char text[RDS_ADDRESS_TEXT_SIZE];
	uint64_t retries = 0;

	rds_address_set_port(&to, (uint16_t)options->port);
	print_progress(options, "connecting to %s port %u\n", rds_address_format(&to, text), rds_address_port(&to));
	for (;;) {
		control->fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (control->fd < 0)
			die("opening a TCP socket: %s", strerror(errno));
		if (options->has_local &&
		    bind(control->fd, &options->local.any, rds_address_size(&options->local)))
			die("binding to %s: %s", rds_address_format(&options->local, text), strerror(errno));
		if (!connect(control->fd, &to.any, rds_address_size(&to)))
			break;
		if (!worth_retrying(errno) || retries++ >= options->connect_retries)
			die("connecting to %s port %u: %s", rds_address_format(&to, text),
			    rds_address_port(&to), strerror(errno));
		close(control->fd);
		sleep(1);
	}
	learn_addresses(control, options);
}

void stress_control_send(struct stress_control *control, const char *format, ...)
{
	char line[STRESS_LINE_SIZE + 1];
	va_list arguments;
	size_t length, sent = 0;

	va_start(arguments, format);
	vsnprintf(line, STRESS_LINE_SIZE, format, arguments);
	va_end(arguments);
	length = strlen(line);
	line[length++] = '\n';
	while (sent < length) {
		ssize_t bytes = send(control->fd, line + sent, length - sent, MSG_NOSIGNAL);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			die("the other side is gone: %s", strerror(errno));
		sent += (size_t)bytes;
	}
}

/*
 * Moves the first line of the buffer to @line, printable: whatever can connect may have sent it, and errors quote it. False when
 * there is no complete one.
 */
static bool take_line(struct stress_control *control, char line[STRESS_LINE_SIZE])
{
	char *end = memchr(control->buffer, '\n', control->used);
	size_t length;

	if (!end) {
		if (control->used == sizeof(control->buffer))
			die("the other side uses another protocol (is it another rds-stress?)");
		return false;
	}
	length = (size_t)(end - control->buffer);
	memcpy(line, control->buffer, length);
	make_printable(line, length);
	line[length] = '\0';
	control->used -= length + 1;
	memmove(control->buffer, end + 1, control->used);
	return true;
}

bool stress_control_receive(struct stress_control *control, char line[STRESS_LINE_SIZE], int timeout_ms)
{
	struct pollfd polled = { .fd = control->fd, .events = POLLIN };
	ssize_t bytes;

	if (take_line(control, line))
		return true;
	if (poll(&polled, 1, timeout_ms) <= 0)
		return false;
	bytes = recv(control->fd, control->buffer + control->used, sizeof(control->buffer) - control->used,
		     0);
	if (bytes < 0 && errno == EINTR)
		return false;
	if (bytes < 0)
		die("the other side is gone: %s", strerror(errno));
	if (!bytes)
		die("the other side closed the control connection");
	control->used += (size_t)bytes;
	return take_line(control, line);
}

/* Waits for a line, also after a signal or half a line. */
static void receive_line(struct stress_control *control, char line[STRESS_LINE_SIZE], int timeout_ms)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	uint64_t now;

	while ((now = now_ns()) < deadline) {
		if (stress_control_receive(control, line, (int)((deadline - now) / NS_PER_MS) + 1))
			return;
	}
	die("the other side does not answer");
}

void stress_control_expect(struct stress_control *control, const char *expected, int timeout_ms)
{
	char line[STRESS_LINE_SIZE];

	receive_line(control, line, timeout_ms);
	if (!strncmp(line, "error ", 6))
		die("the other side reports: %s", line + 6);
	if (strcmp(line, expected))
		die("the other side sent '%.40s' instead of '%s'", line, expected);
}

static bool has_something(const struct stress_control *control, int timeout_ms)
{
	struct pollfd polled = { .fd = control->fd, .events = POLLIN };

	return poll(&polled, 1, timeout_ms) > 0;
}

bool stress_control_greet(struct stress_control *control)
{
	char first = 0;

	if (!has_something(control, SILENCE_MS))
		stress_control_send(control, GREETING);
	if (!has_something(control, ANSWER_MS))
		die("the other side does not answer");
	if (recv(control->fd, &first, 1, MSG_PEEK) != 1)
		die("the other side closed the control connection");
	/* The depth, as a number of four bytes, or a version. */
	return first && !(first >= '0' && first <= '9');
}

bool stress_control_is_greeted(struct stress_control *control)
{
	char line[STRESS_LINE_SIZE];

	if (!has_something(control, GREETING_MS))
		return false;
	receive_line(control, line, ANSWER_MS);
	if (strcmp(line, GREETING))
		die("the other side is not hawser's rds-stress: '%.40s'", line);
	return true;
}

static void send_option(const char *name, uint64_t value, void *context)
{
	stress_control_send(context, "%s %" PRIu64, name, value);
}

void stress_control_tell_options(struct stress_control *control, const struct stress_options *options)
{
	stress_control_send(control, GREETING);
	stress_options_each(options, true, send_option, control);
	stress_control_send(control, "end");
	stress_control_expect(control, "ok", ANSWER_MS);
}

/* "name number" */
static bool split_line(char *line, uint64_t *value)
{
	char *space = strchr(line, ' ');

	if (!space)
		return false;
	*space = '\0';
	return parse_number(space + 1, 0, UINT64_MAX, value);
}

static noreturn void refuse(struct stress_control *control, const char *why, const char *what)
{
	stress_control_send(control, "error %s '%.40s'", why, what);
	die("%s '%.40s'", why, what);
}

void stress_control_take_options(struct stress_control *control, struct stress_options *options)
{
	char line[STRESS_LINE_SIZE];
	const char *problem;
	uint64_t value;

	receive_line(control, line, ANSWER_MS);
	if (strcmp(line, GREETING))
		refuse(control, "the other side is not hawser's rds-stress:", line);
	for (;;) {
		receive_line(control, line, ANSWER_MS);
		if (!strcmp(line, "end"))
			break;
		if (!split_line(line, &value) || !stress_options_set_shared(options, line, value))
			refuse(control, "cannot do option", line);
	}
	problem = stress_options_problem(options);
	if (problem)
		refuse(control, problem, "");
	stress_control_send(control, "ok");
}

void stress_control_swap_counts(struct stress_control *control, const struct stress_counts *ours,
				struct stress_counts *theirs)
{
	const uint64_t *mine = (const uint64_t *)ours;
	uint64_t *its = (uint64_t *)theirs;
	char line[STRESS_LINE_SIZE];
	uint64_t value;
	size_t i;

	for (i = 0; i < STRESS_COUNT_FIELDS; i++)
		stress_control_send(control, "%s %" PRIu64, stress_count_names[i], mine[i]);
	for (i = 0; i < STRESS_COUNT_FIELDS; i++) {
		receive_line(control, line, ANSWER_MS);
		if (!split_line(line, &value) || strcmp(line, stress_count_names[i]))
			die("the other side sent '%.40s' instead of its counts", line);
		its[i] = value;
	}
}
