// SPDX-License-Identifier: GPL-2.0
//
// A guest's command (barrier, link, say, put, lab): passes its arguments to the agent, which forwards them to the host.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent.h"

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

int client_main(const char *verb, int argc, char **argv)
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
