// SPDX-License-Identifier: GPL-2.0
//
// The lab's agent inside a machine: one program, two roles.
//
//   agent PORT          run by init. Exchanges frames with the host over PORT, runs scenes, forwards their
//                       output and the kernel log, and reports how each ended.
//   barrier, link, ...  (any other program name) a client: passes its arguments to the agent over a
//                       unix socket; the agent forwards them to the host. Exits with the host's answer.
//
// The agent only forwards requests; the host interprets them. It never polls on a timer, so that a
// machine under `-icount` counts the work of the scene and nothing else.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "agent.h"

enum {
	CLIENTS_MAX = 64,	// guest commands that may wait for the host at once
	ENV_MAX = 64,
	KMSG_MAX = 8192,	// one record of the kernel log, as the kernel bounds it
};

struct client {
	int fd;			// -1: slot is free
	unsigned int id;	// of the request to the host; 0: not sent yet
};

static int port = -1, kmsg = -1, listener = -1, signals = -1;
static int scene_out[2] = { -1, -1 };	// read ends of the scene's stdout and stderr
static pid_t scene_pid;
static struct client clients[CLIENTS_MAX];
static unsigned int last_id;

static void accept_client(void)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (clients[i].fd < 0) {
			clients[i] = (struct client){ .fd = fd };
			return;
		}
	}
	close(fd);	// the client reports that the agent hung up
}

static void drop_client(struct client *client)
{
	close(client->fd);
	*client = (struct client){ .fd = -1 };
}

static void serve_client(struct client *client)
{
	static struct frame request;

	// A client that was killed while waiting ends here, too.
	if (client->id || !receive_frame(client->fd, &request)) {
		drop_client(client);
		return;
	}
	client->id = ++last_id;
	send_frame(port, "req", client->id, request.payload, request.length);
}

static void answer_client(const struct frame *frame)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0 && clients[i].id == frame->id) {
			send_frame(clients[i].fd, "rep", 0, frame->payload, frame->length);
			drop_client(&clients[i]);
		}
	}
}

// Sends new records of the kernel log.
static void forward_kmsg(void)
{
	static char record[KMSG_MAX + 1];

	for (;;) {
		ssize_t n = read(kmsg, record, KMSG_MAX);

		if (n > 0) {
			send_frame(port, "kmsg", 0, record, n);
		} else if (n < 0 && errno == EPIPE) {
			static const char lost[] = "0,0,0,-;lab: BUG: kernel log records were lost\n";

			send_frame(port, "kmsg", 0, lost, sizeof(lost) - 1);
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else {
			return;
		}
	}
}

// Returns false when there is no more for now, or ever.
static bool forward_output(int which)
{
	static char data[PAYLOAD_MAX / 4];
	ssize_t n;

	if (scene_out[which] < 0)
		return false;
	n = read(scene_out[which], data, sizeof(data));
	if (n > 0) {
		send_frame(port, "out", which + 1, data, n);
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	close(scene_out[which]);
	scene_out[which] = -1;
	return false;
}

// Starts a command of the host. Lines of the payload that contain '=' are environment; the others are the command.
static void start_scene(char *payload)
{
	int out[2], err[2], argc = 0;
	char *argv[ENV_MAX + 1];

	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe");
	fflush(NULL);
	scene_pid = fork();
	if (scene_pid < 0)
		die("fork");
	if (!scene_pid) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		dup2(out[1], 1);
		dup2(err[1], 2);
		for (char *line = strtok(payload, "\n"); line; line = strtok(NULL, "\n")) {
			if (strchr(line, '='))
				putenv(line);
			else if (argc < ENV_MAX)
				argv[argc++] = line;
		}
		argv[argc] = NULL;
		execvp(argv[0], argv);
		die(argv[0]);
	}
	close(out[1]);
	close(err[1]);
	scene_out[0] = out[0];
	scene_out[1] = err[0];
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
}

// The scene's shell has ended: stop its remaining processes, then send all output, and the report last.
static void finish_scene(int status)
{
	kill(-1, SIGKILL);	// everything but init and this process
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].fd >= 0)
			drop_client(&clients[i]);
	for (int which = 0; which < 2; which++) {
		while (forward_output(which))
			;
		if (scene_out[which] >= 0)
			close(scene_out[which]);
		scene_out[which] = -1;
	}
	report_leaks(port);
	forward_kmsg();
	report_end(port, status);
	scene_pid = 0;
}

static void reap(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(signals, &info, sizeof(info)) == sizeof(info))
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == scene_pid) {
			finish_scene(status);
			return;
		}
	}
}

// Returns false when the machine should stop.
static bool obey_host(void)
{
	static struct frame frame;

	if (!receive_frame(port, &frame))
		die("the host hung up");
	if (!strcmp(frame.verb, "scene"))
		start_scene(frame.payload);
	else if (!strcmp(frame.verb, "rep"))
		answer_client(&frame);
	else if (!strcmp(frame.verb, "bye"))
		return false;
	return true;
}

static void open_everything(const char *port_path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET_PATH };
	struct termios raw;
	sigset_t mask;

	for (int i = 0; i < CLIENTS_MAX; i++)
		clients[i].fd = -1;
	port = open(port_path, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (port < 0)
		die(port_path);
	if (!tcgetattr(port, &raw)) {	// a serial line, not a virtio port
		cfmakeraw(&raw);
		tcsetattr(port, TCSANOW, &raw);
	}
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg < 0)
		die("/dev/kmsg");
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, CLIENTS_MAX))
		die(SOCKET_PATH);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		die("signalfd");
	signal(SIGPIPE, SIG_IGN);
}

static int agent_main(const char *port_path)
{
	struct utsname name;

	open_everything(port_path);
	uname(&name);
	send_frame(port, "hello", 0, name.release, strlen(name.release));
	for (;;) {
		struct pollfd fds[6 + CLIENTS_MAX] = {
			{ .fd = port, .events = POLLIN },	  { .fd = kmsg, .events = POLLIN },
			{ .fd = listener, .events = POLLIN },	  { .fd = signals, .events = POLLIN },
			{ .fd = scene_out[0], .events = POLLIN }, { .fd = scene_out[1], .events = POLLIN },
		};

		for (int i = 0; i < CLIENTS_MAX; i++)
			fds[6 + i] = (struct pollfd){ .fd = clients[i].fd, .events = POLLIN };
		if (poll(fds, 6 + CLIENTS_MAX, -1) < 0 && errno != EINTR)
			die("poll");
		if (fds[1].revents)
			forward_kmsg();
		for (int which = 0; which < 2; which++)
			if (fds[4 + which].revents)
				forward_output(which);
		for (int i = 0; i < CLIENTS_MAX; i++)
			if (fds[6 + i].revents && clients[i].fd >= 0)
				serve_client(&clients[i]);
		if (fds[2].revents)
			accept_client();
		if (fds[0].revents && !obey_host())
			return 0;
		if (fds[3].revents)
			reap();
	}
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	name = name ? name + 1 : argv[0];
	if (strcmp(name, "agent"))
		return client_main(name, argc, argv);
	if (argc != 2) {
		fprintf(stderr, "usage: agent PORT\n");
		return 2;
	}
	return agent_main(argv[1]);
}
