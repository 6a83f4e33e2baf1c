// SPDX-License-Identifier: GPL-2.0
/*
 * rds-ping: measures a host's answers over RDS.
 *
 * The peer's kernel answers a message to port 0 with an empty message that contains nothing of the
 * question. So each probe has a socket of its own until its answer arrives: the port identifies the
 * probe. Several sockets also use several paths, because a connection with many paths chooses one by the
 * socket's port.
 */
#include "json.h"
#include "numbers.h"
#include "ping-options.h"
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char program_name[] = "rds-ping";

struct probe {
	int fd;
	uint16_t port;
	bool waiting;			/* sent and not answered */
	unsigned int answers;		/* to the newest probe of this socket */
	uint64_t id;
	uint64_t sent_ns;
};

struct run {
	const struct ping_settings *settings;
	struct probe probes[PING_MAX_SOCKETS];
	unsigned int probe_count;
	unsigned int next_probe;
	uint64_t sent;
	uint64_t received;
	uint64_t duplicates;
	uint64_t errors;
	uint64_t started_ns;
	uint64_t last_sent_ns;
	uint64_t next_send_ns;
	uint64_t rtt_min_ns;
	uint64_t rtt_max_ns;
	uint64_t rtt_sum_ns;
	struct json json;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
	(void)signal_number;
	interrupted = 1;
}

static void open_probe(struct run *run, struct probe *probe)
{
	const struct ping_settings *settings = run->settings;
	union rds_address local;
	char text[RDS_ADDRESS_TEXT_SIZE];
	const char *step;

	probe->fd = rds_socket_open(&settings->socket, &settings->source, &step);
	if (probe->fd < 0)
		die_error(probe->fd, "%s (source address %s)", step,
			  rds_address_format(&settings->source, text));
	if (rds_socket_local_address(probe->fd, &local) == 0)
		probe->port = rds_address_port(&local);
	probe->waiting = false;
}

/* One line, or one JSON object, for an answer (@rtt_ns) or an error. */
static void report(struct run *run, const struct probe *probe, uint64_t rtt_ns, const union rds_address *from,
		   int error)
{
	bool other_host = from && !rds_address_same_host(from, &run->settings->destination);
	char text[RDS_ADDRESS_TEXT_SIZE];

	if (run->settings->json) {
		json_open_object(&run->json, NULL);
		json_unsigned(&run->json, "id", probe->id);
		json_unsigned(&run->json, "local_port", probe->port);
		if (error) {
			json_string(&run->json, "error", strerror(-error));
		} else {
			json_decimal(&run->json, "rtt_us", (double)rtt_ns / 1e3);
			json_string(&run->json, "from", rds_address_format(from, text));
			json_bool(&run->json, "duplicate", probe->answers > 0);
		}
		json_close(&run->json);
		return;
	}
	printf(" %3" PRIu64 ":", probe->id);
	if (!error)
		printf(" %" PRIu64 " usec", rtt_ns / NS_PER_US);
	if (other_host)
		printf(" (%s)", rds_address_format(from, text));
	if (probe->answers)
		printf(" DUP!");
	if (error)
		printf(" ERROR: %s", strerror(-error));
	printf("\n");
	flush_output();
}

/* A socket without an outstanding probe, or NULL when all wait for answers. */
static struct probe *free_probe(struct run *run, uint64_t now)
{
	struct probe *oldest = NULL;
	unsigned int i;

	for (i = 0; i < run->probe_count; i++) {
		struct probe *probe = &run->probes[(run->next_probe + i) % run->probe_count];

		if (!probe->waiting) {
			run->next_probe = (unsigned int)(probe - run->probes + 1) % run->probe_count;
			return probe;
		}
		if (!oldest || probe->sent_ns < oldest->sent_ns)
			oldest = probe;
	}
	if (now - oldest->sent_ns < run->settings->timeout_ns)
		return NULL;
	/* Timed out. Use a new socket, so that a late answer to the old probe is not taken for one to the new. */
	close(oldest->fd);
	open_probe(run, oldest);
	return oldest;
}

static void send_probe(struct run *run, struct probe *probe, uint64_t now)
{
	int error;

	probe->id = ++run->sent;
	probe->sent_ns = now;
	probe->answers = 0;
	run->last_sent_ns = now;
	error = rds_socket_send(probe->fd, &run->settings->destination, NULL, 0, NULL);
	if (error) {
		run->errors++;
		report(run, probe, 0, NULL, error);
		return;
	}
	probe->waiting = true;
}

static void take_answer(struct run *run, struct probe *probe)
{
	struct rds_received received;
	uint64_t rtt_ns;
	int error;

	error = rds_socket_receive(probe->fd, NULL, 0, &received);
	if (error == -EAGAIN || error == -EINTR)
		return;
	if (error) {
		run->errors++;
		probe->waiting = false;
		report(run, probe, 0, NULL, error);
		return;
	}
	if (!received.has_message)
		return;
	rtt_ns = now_ns() - probe->sent_ns;
	report(run, probe, rtt_ns, &received.from, 0);
	if (probe->answers++) {
		run->duplicates++;
		return;
	}
	probe->waiting = false;
	run->received++;
	run->rtt_sum_ns += rtt_ns;
	if (run->received == 1 || rtt_ns < run->rtt_min_ns)
		run->rtt_min_ns = rtt_ns;
	if (rtt_ns > run->rtt_max_ns)
		run->rtt_max_ns = rtt_ns;
}

static bool all_sent(const struct run *run)
{
	return run->settings->count && run->sent >= run->settings->count;
}

static bool any_waiting(const struct run *run)
{
	unsigned int i;

	for (i = 0; i < run->probe_count; i++) {
		if (run->probes[i].waiting)
			return true;
	}
	return false;
}

/* Sends if it is time; returns the next time. */
static uint64_t send_or_wait(struct run *run, uint64_t now)
{
	struct probe *probe;

	if (all_sent(run))
		return run->last_sent_ns + run->settings->timeout_ns;
	if (now < run->next_send_ns)
		return run->next_send_ns;
	probe = free_probe(run, now);
	if (!probe)
		/* An answer wakes us earlier. */
		return now + 10 * NS_PER_MS;
	send_probe(run, probe, now);
	/* Counted from now, not from the planned time: no burst of late probes after a stall. */
	run->next_send_ns = now + run->settings->interval_ns;
	return all_sent(run) ? now + run->settings->timeout_ns : run->next_send_ns;
}

static void wait_for_answers(struct run *run, uint64_t until, const sigset_t *signals_while_waiting)
{
	struct pollfd polled[PING_MAX_SOCKETS];
	uint64_t now = now_ns();
	uint64_t wait_ns = until > now ? until - now : 0;
	struct timespec timeout = {
		.tv_sec = (time_t)(wait_ns / NS_PER_SECOND),
		.tv_nsec = (long)(wait_ns % NS_PER_SECOND),
	};
	unsigned int i;

	for (i = 0; i < run->probe_count; i++)
		polled[i] = (struct pollfd){ .fd = run->probes[i].fd, .events = POLLIN };
	if (ppoll(polled, run->probe_count, &timeout, signals_while_waiting) < 0) {
		if (errno != EINTR)
			die_error(errno, "waiting for answers");
		return;
	}
	for (i = 0; i < run->probe_count; i++) {
		if (polled[i].revents & (POLLIN | POLLERR | POLLHUP))
			take_answer(run, &run->probes[i]);
	}
}

static void ping(struct run *run)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	sigset_t interrupts, before;

	/* Signals arrive only inside ppoll, so none is missed between the check and the wait. */
	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGINT);
	sigaddset(&interrupts, SIGTERM);
	sigprocmask(SIG_BLOCK, &interrupts, &before);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	run->started_ns = now_ns();
	run->next_send_ns = run->started_ns;
	while (!interrupted) {
		uint64_t now = now_ns();
		uint64_t until;

		if (all_sent(run) &&
		    (!any_waiting(run) || now - run->last_sent_ns >= run->settings->timeout_ns))
			break;
		until = send_or_wait(run, now);
		wait_for_answers(run, until, &before);
	}
}

static void summarize(struct run *run)
{
	uint64_t lost = run->sent - run->received;
	double loss = run->sent ? 100.0 * (double)lost / (double)run->sent : 0.0;
	uint64_t average_ns = run->received ? run->rtt_sum_ns / run->received : 0;
	uint64_t took_ms = (now_ns() - run->started_ns) / NS_PER_MS;
	char text[RDS_ADDRESS_TEXT_SIZE];

	if (run->settings->json) {
		json_close(&run->json);
		json_unsigned(&run->json, "sent", run->sent);
		json_unsigned(&run->json, "received", run->received);
		json_unsigned(&run->json, "lost", lost);
		json_decimal(&run->json, "loss_percent", loss);
		json_unsigned(&run->json, "duplicates", run->duplicates);
		json_unsigned(&run->json, "errors", run->errors);
		json_unsigned(&run->json, "time_ms", took_ms);
		if (run->received) {
			json_open_object(&run->json, "rtt_us");
			json_decimal(&run->json, "min", (double)run->rtt_min_ns / 1e3);
			json_decimal(&run->json, "avg", (double)average_ns / 1e3);
			json_decimal(&run->json, "max", (double)run->rtt_max_ns / 1e3);
			json_close(&run->json);
		} else {
			json_null(&run->json, "rtt_us");
		}
		json_close(&run->json);
		return;
	}
	printf("--- %s rds-ping statistics ---\n", rds_address_format(&run->settings->destination, text));
	printf("%" PRIu64 " sent, %" PRIu64 " received, ", run->sent, run->received);
	if (run->duplicates)
		printf("%" PRIu64 " duplicates, ", run->duplicates);
	printf("%.4g%% lost, time %" PRIu64 " ms\n", loss, took_ms);
	if (run->received)
		printf("rtt min/avg/max = %" PRIu64 "/%" PRIu64 "/%" PRIu64 " usec\n",
		       run->rtt_min_ns / NS_PER_US, average_ns / NS_PER_US, run->rtt_max_ns / NS_PER_US);
}

static void start_json(struct run *run)
{
	const struct ping_settings *settings = run->settings;
	char text[RDS_ADDRESS_TEXT_SIZE];

	json_start(&run->json, stdout);
	json_open_object(&run->json, NULL);
	json_string(&run->json, "destination", rds_address_format(&settings->destination, text));
	json_string(&run->json, "source", rds_address_format(&settings->source, text));
	json_unsigned(&run->json, "tos", settings->socket.tos);
	json_open_array(&run->json, "probes");
}

int main(int argc, char **argv)
{
	struct ping_settings settings;
	struct run run = { .settings = &settings };

	ping_read_command_line(&settings, argc, argv);
	while (run.probe_count < settings.sockets)
		open_probe(&run, &run.probes[run.probe_count++]);
	if (settings.json)
		start_json(&run);
	ping(&run);
	summarize(&run);
	flush_output();
	return run.received ? EXIT_GOOD : EXIT_FAILED;
}
