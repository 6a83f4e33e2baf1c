// SPDX-License-Identifier: GPL-2.0
/*
 * The program of rds-rdma(7):
 *
 *   rdma_example serve ADDRESS      writes a greeting into the memory of each program that asks
 *   rdma_example ask ADDRESS PEER   gives PEER some memory, and prints what PEER has written there
 */
#include <arpa/inet.h>
#include <err.h>
#include <linux/rds.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PORT 4711

static struct sockaddr_in name_of(const char *address)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	if (inet_pton(AF_INET, address, &name.sin_addr) != 1)
		errx(2, "%s is not an IPv4 address", address);
	return name;
}

static int open_at(const char *address)
{
	struct sockaddr_in name = name_of(address);
	int fd = socket(AF_RDS, SOCK_SEQPACKET, 0);

	if (fd < 0)
		err(1, "socket");
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)))
		err(1, "bind");
	return fd;
}

/* Sends a text with one control message. */
static void send_with(int fd, struct sockaddr_in *to, char *text, int type, const void *data, size_t size)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct rds_rdma_args))] = { 0 };
	struct iovec iov = { text, strlen(text) };
	struct msghdr msg = { .msg_name = to, .msg_namelen = sizeof(*to), .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = control, .msg_controllen = CMSG_SPACE(size) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_RDS;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(cmsg), data, size);
	if (sendmsg(fd, &msg, 0) < 0)
		err(1, "sendmsg");
}

static void ask(int fd, const char *peer)
{
	static char memory[64], text[64];
	struct sockaddr_in to = name_of(peer);
	rds_rdma_cookie_t cookie;
	struct rds_get_mr_args region = {
		.vec = { (uintptr_t)memory, sizeof(memory) },
		.cookie_addr = (uintptr_t)&cookie,
		.flags = RDS_RDMA_READWRITE | RDS_RDMA_USE_ONCE,
	};

	/* Makes the region, and sends its cookie with the message. */
	send_with(fd, &to, "please", RDS_CMSG_RDMA_MAP, &region, sizeof(region));
	/* This was sent after the memory was written, and the region has ended. */
	if (recv(fd, text, sizeof(text), 0) < 0)
		err(1, "recv");
	printf("%.64s\n", memory);
}

static void greet(int fd, struct sockaddr_in *to, rds_rdma_cookie_t cookie)
{
	static char greeting[] = "hello";
	struct rds_iovec local = { (uintptr_t)greeting, sizeof(greeting) };
	struct rds_rdma_args write = {
		.cookie = cookie,
		.remote_vec = { 0, sizeof(greeting) }, /* from the beginning of the region on */
		.local_vec_addr = (uintptr_t)&local,
		.nr_local = 1,
		.flags = RDS_RDMA_READWRITE | RDS_RDMA_NOTIFY_ME,
		.user_token = 1,
	};

	send_with(fd, to, "done", RDS_CMSG_RDMA_ARGS, &write, sizeof(write));
}

static void serve(int fd)
{
	for (;;) {
		_Alignas(struct cmsghdr) char control[256];
		char text[64];
		struct sockaddr_in from;
		struct iovec iov = { text, sizeof(text) };
		struct msghdr msg = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1,
				      .msg_control = control, .msg_controllen = sizeof(control) };
		struct rds_rdma_notify notice;
		rds_rdma_cookie_t cookie;
		struct cmsghdr *cmsg;

		if (recvmsg(fd, &msg, 0) < 0)
			err(1, "recvmsg");
		for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
			if (cmsg->cmsg_type == RDS_CMSG_RDMA_DEST) {
				memcpy(&cookie, CMSG_DATA(cmsg), sizeof(cookie));
				greet(fd, &from, cookie);
			} else if (cmsg->cmsg_type == RDS_CMSG_RDMA_STATUS) {
				memcpy(&notice, CMSG_DATA(cmsg), sizeof(notice));
				printf("operation %llu: status %d\n", (unsigned long long)notice.user_token, notice.status);
			}
		}
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(open_at(argv[2]));
	else if (argc == 4 && !strcmp(argv[1], "ask"))
		ask(open_at(argv[2]), argv[3]);
	else
		errx(2, "rdma_example serve ADDRESS | ask ADDRESS PEER");
	return 0;
}
