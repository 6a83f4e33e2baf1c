// SPDX-License-Identifier: GPL-2.0
/*
 * The program of kcm(7). A message is a length of four bytes, in network byte order, and so many bytes:
 *
 *   kcm_echo_example serve PORT      answers each message of any client with its text
 *   kcm_echo_example ask PORT TEXT   sends TEXT to the server on this host, over TCP, and prints the answer
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/kcm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hawser_kcm.h"

#define MAX_TEXT 65536

/* A program that returns the length of the message that begins with the first byte of what it sees. */
static int load_parser(void)
{
	const struct bpf_insn code[] = {
		/* r6 = the bytes; r0 = the first four of them, or the end with 0 (more are needed); a longer text is refused */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_6, .src_reg = BPF_REG_1 },
		{ .code = BPF_LD | BPF_ABS | BPF_W, .imm = 0 },
		{ .code = BPF_JMP | BPF_JGT | BPF_K, .dst_reg = BPF_REG_0, .off = 2, .imm = MAX_TEXT },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_0, .imm = 4 },
		{ .code = BPF_JMP | BPF_EXIT },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = -EPROTO },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attributes = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)code,
		.insn_cnt = sizeof(code) / sizeof(code[0]),
		.license = (uintptr_t)"GPL",
	};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));

	if (fd < 0)
		err(1, "bpf");
	return fd;
}

static struct sockaddr_in name_of(const char *port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return name;
}

/* Each message is whole, and comes with the connection that its answer takes. */
static void answer(int kcm)
{
	static char message[4 + MAX_TEXT];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct kcm_connection))];

	for (;;) {
		struct iovec iov = { message, sizeof(message) };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t size = recvmsg(kcm, &msg, 0);

		if (size < 0) {
			warn("a connection has ended"); /* the last one: KCM_ERRORS reports each */
			continue;
		}
		iov.iov_len = size;
		msg.msg_flags = 0;
		if (sendmsg(kcm, &msg, 0) < 0)
			warn("sendmsg");
	}
}

static void serve(const char *port)
{
	struct sockaddr_in name = name_of(port);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	int kcm = socket(AF_KCM, SOCK_DGRAM, KCMPROTO_CONNECTED), parser = load_parser();

	if (kcm < 0 || setsockopt(kcm, SOL_KCM, KCM_RECV_CONNECTION, &on, sizeof(on)))
		err(1, "KCM");
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(listener, (struct sockaddr *)&name, sizeof(name)) || listen(listener, 16))
		err(1, "listen");
	if (fork() == 0)
		answer(kcm); /* more workers use one socket, or have their own by SIOCKCMCLONE */
	for (;;) {
		struct kcm_attach attach = { .fd = accept(listener, NULL, NULL), .bpf_fd = parser };

		if (attach.fd < 0 || ioctl(kcm, SIOCKCMATTACH, &attach))
			warn("a client is not served");
		close(attach.fd); /* KCM keeps the connection until the client closes it */
	}
}

static void ask(const char *port, const char *text)
{
	struct sockaddr_in name = name_of(port);
	uint32_t length = htonl(strlen(text));
	FILE *server;
	char *got;
	int tcp = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(tcp, (struct sockaddr *)&name, sizeof(name)))
		err(1, "connect");
	server = fdopen(tcp, "r+");
	fwrite(&length, sizeof(length), 1, server);
	fwrite(text, strlen(text), 1, server);
	fflush(server);
	if (fread(&length, sizeof(length), 1, server) != 1 || ntohl(length) > MAX_TEXT)
		errx(1, "no answer");
	got = malloc(ntohl(length) + 1);
	if (!got || fread(got, 1, ntohl(length), server) != ntohl(length))
		errx(1, "a part of an answer");
	printf("%.*s\n", (int)ntohl(length), got);
	free(got);
	fclose(server);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "ask"))
		ask(argv[2], argv[3]);
	else
		errx(2, "kcm_echo_example serve PORT | ask PORT TEXT");
	return 0;
}
