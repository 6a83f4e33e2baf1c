// SPDX-License-Identifier: GPL-2.0
//
// The lab's agent inside a machine: one program, two roles.
//
//   agent PORT          run by init. Exchanges frames with the host over PORT, runs scenes, forwards their
//                       output and the kernel log, and reports how each ended.
//   barrier, link, ...  (any other program name) a client: passes its arguments to the agent over a
//                       unix socket; the agent forwards them to the host. Exits with the host's answer.
//
// A frame is a line "VERB ID LENGTH\n" and LENGTH bytes, the same in both directions and on both sockets. The
// agent only forwards requests; the host interprets them. It never polls on a timer, so that a
// machine under `-icount` counts the work of the scene and nothing else.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum {
	PAYLOAD_MAX = 65536,	// of one frame; a put is cut into frames half that size
	CLIENTS_MAX = 64,	// guest commands that may wait for the host at once
	ENV_MAX = 64,
	KMSG_MAX = 8192,	// one record of the kernel log, as the kernel bounds it
};

#define SOCKET_PATH "/run/lab.sock"
#define KMEMLEAK_PATH "/sys/kernel/debug/kmemleak"

struct frame {
	char verb[16];
	unsigned int id;
	size_t length;
	char payload[PAYLOAD_MAX + 1];	// with a NUL at the end that length does not count
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

static void die(const char *what)
{
	fprintf(stderr, "lab agent: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void write_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t n = write(fd, at, length);

		// A scene may make allocations fail, the agent's too.
		if (n < 0 && (errno == EINTR || errno == ENOMEM))
			continue;
		if (n < 0)
			die("write");
		at += n;
		length -= n;
	}
}

// Returns false at the end of the stream.
static bool read_all(int fd, void *data, size_t length)
{
	char *at = data;

	while (length) {
		ssize_t n = read(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		length -= n;
	}
	return true;
}

static void send_frame(int fd, const char *verb, unsigned int id, const void *payload, size_t length)
{
	static char frame[PAYLOAD_MAX + 64];
	int head = snprintf(frame, 64, "%s %u %zu\n", verb, id, length);

	memcpy(frame + head, payload, length);
	write_all(fd, frame, head + length);
}

static bool receive_frame(int fd, struct frame *frame)
{
	char head[64];
	size_t n = 0;

	do {
		if (n == sizeof(head) - 1 || !read_all(fd, head + n, 1))
			return false;
	} while (head[n++] != '\n');
	head[n] = 0;
	if (sscanf(head, "%15s %u %zu", frame->verb, &frame->id, &frame->length) != 3)
		return false;
	if (frame->length > PAYLOAD_MAX || !read_all(fd, frame->payload, frame->length))
		return false;
	frame->payload[frame->length] = 0;
	return true;
}

// The client.

static int connect_agent(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET_PATH };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die("cannot reach the lab's agent");
	return fd;
}

// Sends a request to the host, prints the answer's text and returns its code.
static int ask(const void *payload, size_t length)
{
	static struct frame answer;
	int fd = connect_agent();
	char *text;
	int code;

	send_frame(fd, "req", 0, payload, length);
	if (!receive_frame(fd, &answer))
		die("the agent hung up");
	close(fd);
	code = strtol(answer.payload, &text, 10);
	if (*text == '\n')
		text++;
	fputs(text, code ? stderr : stdout);
	return code;
}

// Appends a string and its NUL to a request.
static size_t append(char *payload, size_t length, const char *word)
{
	size_t size = strlen(word) + 1;

	if (length + size > PAYLOAD_MAX) {
		errno = E2BIG;
		die("arguments");
	}
	memcpy(payload + length, word, size);
	return length + size;
}

// put FILE [NAME]: sends a file in pieces; the first one creates it on the host, an empty one ends it.
static int put(int argc, char **argv)
{
	static char payload[PAYLOAD_MAX];
	const char *name = argc > 2 ? argv[2] : strrchr(argv[1], '/');
	int fd = open(argv[1], O_RDONLY);
	bool first = true;
	ssize_t n;

	if (fd < 0)
		die(argv[1]);
	if (!name)
		name = argv[1];
	name += *name == '/';
	do {
		size_t length = append(payload, 0, "put");
		int code;

		length = append(payload, length, name);
		length = append(payload, length, first ? "first" : "more");
		n = read(fd, payload + length, PAYLOAD_MAX / 2);
		if (n < 0)
			die(argv[1]);
		code = ask(payload, length + n);
		if (code)
			return code;
		first = false;
	} while (n > 0);
	return 0;
}

static int client_main(const char *verb, int argc, char **argv)
{
	static char payload[PAYLOAD_MAX];
	size_t length;

	if (!strcmp(verb, "put")) {
		if (argc < 2) {
			fprintf(stderr, "usage: put FILE [NAME]\n");
			return 2;
		}
		return put(argc, argv);
	}
	length = append(payload, 0, verb);
	for (int i = 1; i < argc; i++)
		length = append(payload, length, argv[i]);
	return ask(payload, length);
}

// The agent.

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

static size_t read_file(const char *path, char *data, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, data, size);
	close(fd);
	return n > 0 ? n : 0;
}

static bool command_kmemleak(const char *command)
{
	int fd = open(KMEMLEAK_PATH, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, command, strlen(command)) > 0;

	if (fd >= 0)
		close(fd);
	return written;
}

// Two scans: an object counts as leaked when it is older than five seconds and unchanged between scans. A kernel that
// has kmemleak and does not scan any more (it switches itself off without memory) proves nothing.
static void report_leaks(void)
{
	static const char off[] = "kmemleak switched itself off: leaks are unknown\n";
	static char data[PAYLOAD_MAX / 2];
	bool scanned;
	size_t n;

	if (access(KMEMLEAK_PATH, F_OK))
		return;
	scanned = command_kmemleak("scan");
	sleep(6);
	if (!scanned || !command_kmemleak("scan")) {
		send_frame(port, "leak", 0, off, sizeof(off) - 1);
		return;
	}
	n = read_file(KMEMLEAK_PATH, data, sizeof(data));
	if (n)
		send_frame(port, "leak", 0, data, n);
	command_kmemleak("clear");
}

// Appends "module NAME BUILD-ID" for every loaded module.
static size_t list_modules(char *text, size_t size)
{
	DIR *dir = opendir("/sys/module");
	struct dirent *entry;
	size_t used = 0;

	while (dir && (entry = readdir(dir)) && used + 512 < size) {
		unsigned char note[64];
		char path[320];
		size_t n;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/module/%s/notes/.note.gnu.build-id", entry->d_name);
		n = read_file(path, (char *)note, sizeof(note));
		if (n <= 16)	// the note's head: three words and "GNU\0"
			continue;
		used += snprintf(text + used, size - used, "module %s ", entry->d_name);
		for (size_t i = 16; i < n; i++)
			used += snprintf(text + used, size - used, "%02x", note[i]);
		used += snprintf(text + used, size - used, "\n");
	}
	if (dir)
		closedir(dir);
	return used;
}

static void report(int status)
{
	static char text[PAYLOAD_MAX];
	char taint[32] = "";
	size_t n = read_file("/proc/sys/kernel/tainted", taint, sizeof(taint) - 1);

	taint[n] = 0;
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	n = snprintf(text, sizeof(text), "exit %d\ntaint %ld\n", status, strtol(taint, NULL, 10));
	n += list_modules(text + n, sizeof(text) - n);
	send_frame(port, "report", 0, text, n);
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
	report_leaks();
	forward_kmsg();
	report(status);
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
