// SPDX-License-Identifier: GPL-2.0
/*
 * The program of rds(7):
 *
 *   rds_example serve ADDRESS            answers each message with its text
 *   rds_example ask ADDRESS PEER TEXT    sends TEXT to PEER, and prints the answer
 */
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PORT 4712

static struct sockaddr_in name_of(const char *address, int port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, address, &name.sin_addr) != 1)
		errx(2, "%s is not an IPv4 address", address);
	return name;
}

/* Port 0: a free one. */
static int open_at(const char *address, int port)
{
	struct sockaddr_in name = name_of(address, port);
	int fd = socket(AF_RDS, SOCK_SEQPACKET, 0);

	if (fd < 0)
		err(1, "socket");
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)))
		err(1, "bind");
	return fd;
}

static void serve(int fd)
{
	static char text[1 << 20]; /* no message is longer */
	struct sockaddr_in from;

	for (;;) {
		socklen_t length = sizeof(from);
		ssize_t size = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &length);

		if (size < 0)
			err(1, "recvfrom");
		/* Waits while the peer's socket is full. */
		if (sendto(fd, text, size, 0, (struct sockaddr *)&from, length) < 0)
			warn("sendto");
	}
}

static void ask(int fd, const char *peer, const char *text)
{
	struct sockaddr_in to = name_of(peer, PORT);
	char answer[64];
	ssize_t size;

	/* The message is queued. It arrives once, when the peer can be reached. */
	if (sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(1, "sendto");
	size = recv(fd, answer, sizeof(answer), MSG_TRUNC);
	if (size < 0)
		err(1, "recv");
	printf("%zd bytes: %.*s\n", size, (int)(size < 64 ? size : 64), answer);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(open_at(argv[2], PORT));
	else if (argc == 5 && !strcmp(argv[1], "ask"))
		ask(open_at(argv[2], 0), argv[3], argv[4]);
	else
		errx(2, "rds_example serve ADDRESS | ask ADDRESS PEER TEXT");
	return 0;
}
