// SPDX-License-Identifier: GPL-2.0
/*
 * kcm-server: answers requests of many TCP connections with a few workers.
 *
 * All connections that are accepted go to one multiplexor. The workers do not see them: each receives whole
 * requests from its own KCM socket, as they come. The multiplexor's first socket receives none; the main thread uses it
 * to attach connections and to remove those that ended.
 */
#include "json.h"
#include "kcm-backlog.h"
#include "kcm-frame.h"
#include "kcm-socket.h"
#include "kcm-worker.h"
#include "listener.h"
#include "numbers.h"
#include "program.h"
#include "server-options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcm.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

const char program_name[] = "kcm-server";

#define BACKLOG 128

struct connection {
	int tcp;
	uint64_t id; /* KCM's id */
};

struct server {
	const struct server_settings *settings;
	int listener, signals, stop;
	int cut[2]; /* a pipe: ids of connections that are to be ended */
	int kcm, parser;
	struct worker *workers[SERVER_MAX_WORKERS];
	struct connection connections[KCM_MOST_CONNECTIONS];
	size_t count;
	uint64_t accepted, closed, failed; /* connections: all; those their client closed; those that broke */
	uint64_t accept_again_ns;	   /* no connection is accepted before, for want of memory or descriptors */
};

/* ---- connections */

/* TCP's time-outs for a client that does not answer. */
static void set_up(const struct server_settings *settings, int tcp)
{
	int ms = (int)(settings->timeout_ns / NS_PER_MS), s = (ms + 999) / 1000;
	const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },	 { IPPROTO_TCP, TCP_KEEPIDLE, s },
		{ IPPROTO_TCP, TCP_KEEPINTVL, s }, { IPPROTO_TCP, TCP_USER_TIMEOUT, ms },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(tcp, options[i].level, options[i].name, &options[i].value, sizeof(int)))
			die("cannot set up a connection: %s", strerror(errno));
}

static void accept_connection(struct server *server)
{
	struct connection c = { .tcp = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC) };
	int error;

	if (c.tcp < 0) {
		if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
			return; /* the client gave up */
		warn("cannot accept a connection for a second: %s", strerror(errno));
		server->accept_again_ns = now_ns() + NS_PER_SECOND;
		return;
	}
	server->accepted++;
	set_up(server->settings, c.tcp);
	error = kcm_attach(server->kcm, c.tcp, server->parser);
	if (error) {
		server->failed++;
		warn("a connection ended before it was attached: %s", strerror(-error));
		close(c.tcp);
		return;
	}
	c.id = kcm_id(server->kcm, c.tcp);
	server->connections[server->count++] = c;
}

static struct connection *find_connection(struct server *server, uint64_t id)
{
	for (size_t i = 0; i < server->count; i++)
		if (server->connections[i].id == id)
			return &server->connections[i];
	return NULL;
}

/* Detaches the connection from KCM and closes it; later if an answer to it is being sent. */
static void end_connection(struct server *server, struct connection *c, const struct kcm_connection_stats *stats)
{
	char text[INET6_ADDRSTRLEN];
	int error = kcm_unattach(server->kcm, c->tcp);

	if (error == -EAGAIN || error == -EINTR)
		return;
	if (stats->error == EPIPE || stats->error == 0) {
		server->closed++;
	} else {
		server->failed++;
		inet_ntop(AF_INET6, stats->remote_addr, text, sizeof(text));
		warn("the connection from %s, port %u, broke: %s", text, stats->remote_port, strerror(stats->error));
	}
	close(c->tcp);
	*c = server->connections[--server->count];
}

/*
 * Closes connections that ended. An error on our KCM socket reports that some did, but not which. Without memory for the table
 * they are found a second later.
 */
static void look_after_connections(struct server *server)
{
	static struct kcm_connection_stats stats[KCM_MOST_CONNECTIONS];
	int count;

	kcm_take_error(server->kcm);
	count = kcm_connections(server->kcm, stats, KCM_MOST_CONNECTIONS);
	if (count < 0 && count != -ENOMEM)
		die("cannot read the connections of KCM: %s", strerror(-count));
	for (int i = 0; i < count; i++) {
		struct connection *c = NULL;

		if (stats[i].error || stats[i].state & KCM_CONN_RX_STOPPED)
			c = find_connection(server, stats[i].id);
		if (c)
			end_connection(server, c, &stats[i]);
	}
}

/* A worker wants a connection cut off whose client leaves too much unread: as if the client had ended it. */
static void cut_connection(struct server *server)
{
	uint64_t id;
	struct connection *c;

	if (read(server->cut[0], &id, sizeof(id)) != sizeof(id))
		die("cannot read the connections to cut off: %s", strerror(errno));
	c = find_connection(server, id);
	if (c)
		shutdown(c->tcp, SHUT_RDWR);
}

/* ---- beginning and end */

static void start_to_listen(struct server *server)
{
	const struct server_settings *settings = server->settings;
	union rds_address address = settings->address;
	char text[RDS_ADDRESS_TEXT_SIZE];

	rds_address_set_port(&address, (uint16_t)settings->port);
	server->listener = listen_on(&address, SOCK_NONBLOCK, BACKLOG);
	if (server->listener < 0)
		die("cannot listen on %s, port %" PRIu64 ": %s", rds_address_format(&address, text), settings->port,
		    strerror(errno));
}

static int catch_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	/* Before threads are created, so that all of them block these signals. */
	if (sigprocmask(SIG_BLOCK, &set, NULL) || (fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
		die("cannot catch signals: %s", strerror(errno));
	return fd;
}

static void check(int error, const char *what)
{
	if (error < 0)
		die("%s: %s", what, strerror(-error));
}

static void start(struct server *server)
{
	const struct server_settings *settings = server->settings;

	server->signals = catch_signals();
	server->stop = eventfd(0, EFD_CLOEXEC);
	if (server->stop < 0 || pipe2(server->cut, O_CLOEXEC | O_NONBLOCK))
		die("cannot create a pipe to the workers: %s", strerror(errno));
	server->kcm = kcm_open();
	server->parser = kcm_load_parser(settings->max_message);
	check(kcm_set(server->kcm, KCM_RECV_DISABLE, 1), "KCM_RECV_DISABLE");
	check(kcm_set(server->kcm, KCM_MAX_MESSAGE, (int)settings->max_message), "KCM_MAX_MESSAGE");
	check(kcm_set(server->kcm, KCM_STEERING, settings->steering), "KCM_STEERING");
	for (uint32_t i = 0; i < settings->workers; i++) {
		int socket = kcm_clone(server->kcm);

		check(socket, "cannot clone a KCM socket");
		server->workers[i] = worker_start(i, socket, server->stop, server->cut[1], settings->max_message,
						  BACKLOG_OF_ALL / settings->workers);
	}
	start_to_listen(server);
	warn("listening on port %" PRIu64 " with %" PRIu64 " workers", settings->port, settings->workers);
}

/*
 * Also checks the connections once a second: a client that closed its side before the attach causes no error,
 * because it may still read.
 */
static void serve(struct server *server)
{
	enum { SIGNAL, KCM, LISTENER, CUT };
	struct pollfd fds[] = {
		[SIGNAL] = { .fd = server->signals, .events = POLLIN },
		[KCM] = { .fd = server->kcm }, /* POLLERR is always reported */
		[LISTENER] = { .fd = server->listener, .events = POLLIN },
		[CUT] = { .fd = server->cut[0], .events = POLLIN },
	};
	uint64_t looked_ns = now_ns();

	while (!fds[SIGNAL].revents) {
		/* Those that find no room wait in the listener's queue. */
		bool accepts = server->count < KCM_MOST_CONNECTIONS && now_ns() >= server->accept_again_ns;

		fds[LISTENER].events = accepts ? POLLIN : 0;
		if (poll(fds, 4, 1000) < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
		if (fds[LISTENER].revents)
			accept_connection(server);
		if (fds[CUT].revents)
			cut_connection(server);
		if (fds[KCM].revents || now_ns() - looked_ns >= NS_PER_SECOND) {
			look_after_connections(server);
			looked_ns = now_ns();
		}
	}
}

static void add(struct worker_counts *sum, const struct worker_counts *counts)
{
	sum->requests += counts->requests;
	sum->request_bytes += counts->request_bytes;
	sum->answers += counts->answers;
	sum->answer_bytes += counts->answer_bytes;
	sum->undeliverable += counts->undeliverable;
	sum->receives += counts->receives;
	if (counts->most > sum->most)
		sum->most = counts->most;
}

static void report_json(const struct server *server, const struct worker_counts *counts)
{
	struct json json;

	json_start(&json, stdout);
	json_open_object(&json, NULL);
	json_open_object(&json, "connections");
	json_unsigned(&json, "accepted", server->accepted);
	json_unsigned(&json, "closed", server->closed);
	json_unsigned(&json, "failed", server->failed);
	json_unsigned(&json, "open", server->count);
	json_close(&json);
	json_open_array(&json, "workers");
	for (size_t i = 0; i < server->settings->workers; i++) {
		json_open_object(&json, NULL);
		json_unsigned(&json, "requests", counts[i].requests);
		json_unsigned(&json, "request_bytes", counts[i].request_bytes);
		json_unsigned(&json, "answers", counts[i].answers);
		json_unsigned(&json, "answer_bytes", counts[i].answer_bytes);
		json_unsigned(&json, "undeliverable", counts[i].undeliverable);
		json_unsigned(&json, "receives", counts[i].receives);
		json_unsigned(&json, "most", counts[i].most);
		json_close(&json);
	}
	json_close(&json);
	json_close(&json);
}

static void report_row(const char *name, const struct worker_counts *c)
{
	printf("%-8s %10" PRIu64 " %14" PRIu64 " %10" PRIu64 " %14" PRIu64 " %8" PRIu64 " %10" PRIu64 " %5" PRIu64 "\n", name,
	       c->requests, c->request_bytes, c->answers, c->answer_bytes, c->undeliverable, c->receives, c->most);
}

static void report(const struct server *server, const struct worker_counts *counts)
{
	struct worker_counts sum = { 0 };
	char name[24];

	printf("%-8s %10s %14s %10s %14s %8s %10s %5s\n", "worker", "requests", "bytes", "answers", "bytes", "no-way",
	       "receives", "most");
	for (size_t i = 0; i < server->settings->workers; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		report_row(name, &counts[i]);
		add(&sum, &counts[i]);
	}
	report_row("all", &sum);
	printf("connections: %" PRIu64 " accepted, %" PRIu64 " closed by the client, %" PRIu64 " broken, %zu open\n",
	       server->accepted, server->closed, server->failed, server->count);
}

static void finish(struct server *server)
{
	struct worker_counts counts[SERVER_MAX_WORKERS];
	uint64_t one = 1;

	close(server->listener);
	look_after_connections(server);
	if (write(server->stop, &one, sizeof(one)) != sizeof(one))
		die("cannot stop the workers: %s", strerror(errno));
	for (size_t i = 0; i < server->settings->workers; i++)
		counts[i] = worker_join(server->workers[i]);
	/* KCM still delivers sent messages after its last socket is closed. */
	close(server->kcm);
	for (size_t i = 0; i < server->count; i++)
		close(server->connections[i].tcp);
	(server->settings->json ? report_json : report)(server, counts);
	flush_output();
}

int main(int argc, char **argv)
{
	static struct server server;
	struct server_settings settings;

	server_read_command_line(&settings, argc, argv);
	server.settings = &settings;
	start(&server);
	serve(&server);
	finish(&server);
	return EXIT_GOOD;
}
