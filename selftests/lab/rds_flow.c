// SPDX-License-Identifier: GPL-2.0
//
// The smallest proof that RDS carries data between two machines.
//
//   rds_flow MINE PEER    binds to MINE, sends messages to PEER until one arrives from there, and checks it

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { FLOW_PORT = 4000, TRIES = 150 };

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(FLOW_PORT) };

	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static int not_ok(const char *what)
{
	printf("not ok 1 %s: %m\n", what);
	return 1;
}

int main(int argc, char **argv)
{
	static const char text[] = "RDS carries this";
	struct timeval wait = { .tv_usec = 200000 };
	struct sockaddr_in mine, peer;
	char got[64] = "";
	int fd, heard = 0;

	if (argc != 3)
		return 2;
	printf("1..1\n");
	mine = address_of(argv[1]);
	peer = address_of(argv[2]);
	fd = socket(AF_RDS, SOCK_SEQPACKET, 0);
	if (fd < 0)
		return not_ok("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (bind(fd, (struct sockaddr *)&mine, sizeof(mine)))
		return not_ok("bind");
	for (int i = 0; i < TRIES && !heard; i++) {
		// Not blocking: when both sides connect at once, the kernel's own RDS may wait without end.
		if (sendto(fd, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&peer,
			   sizeof(peer)) != sizeof(text))
			return not_ok("sendto");
		heard = recv(fd, got, sizeof(got), 0) == sizeof(text) && !strcmp(got, text);
	}
	if (!heard)
		return not_ok("nothing came");
	// All before this one may have come before the peer was bound.
	if (sendto(fd, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&peer, sizeof(peer)) != sizeof(text))
		return not_ok("the last sendto");
	sleep(2);	// it is sent before the socket closes
	printf("ok 1 a message from %s\n", argv[2]);
	return 0;
}
