// SPDX-License-Identifier: GPL-2.0
/* TCP below RDS: foreign connections to its port, and connections that an administrator destroys. */
#include "fuzz.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>

static void say_anything(struct caller *c, int fd)
{
	char said[300];
	size_t size = pick(c, sizeof(said));
	struct linger reset = { 1, 0 };

	/* Half a header with any contents, or a plausible one. */
	for (size_t i = 0; i < size; i++)
		said[i] = chance(c, 3) ? (char)random_next(&c->random) : 0;
	if (send(fd, said, size, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 && chance(c, 2))
		nap_us(pick(c, 3000));
	if (chance(c, 2))
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

void call_stranger(struct caller *c)
{
	struct addr from = addr(STRANGER, 0), to = addr(STRANGERS_VICTIM, RDS_TCP_PORT);
	int fd = socket_in(home_ns(AT_A), AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (bind(fd, &from.sa, from.len) == 0 && CALL(c, K_STRANGER, connect(fd, &to.sa, to.len)) == 0)
		say_anything(c, fd);
	close(fd);
}

/* ---- destroying */

struct diag_request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

static struct diag_request diag_request(int type, int flags, int family)
{
	return (struct diag_request){
		.header = { .nlmsg_len = sizeof(struct diag_request),
			    .nlmsg_type = type,
			    .nlmsg_flags = NLM_F_REQUEST | flags },
		/* Not listening sockets: a host without them never accepts again. */
		.body = { .sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~(1u << TCP_LISTEN) },
	};
}

static void destroy_one(struct caller *c, int ns, const struct inet_diag_msg *found)
{
	struct diag_request r = diag_request(SOCK_DESTROY, NLM_F_ACK, found->idiag_family);
	int fd = socket_in(ns, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[1024];
	} answer = { .error = { .error = -EIO } };

	NEED(fd >= 0);
	r.body.id = found->id;
	NEED(send(fd, &r, sizeof(r), 0) == sizeof(r));
	begin(c, K_RESET);
	NEED(recv(fd, &answer, sizeof(answer), 0) >= (ssize_t)NLMSG_LENGTH(sizeof(answer.error)));
	errno = -answer.error.error;
	ended(c, answer.error.error);
	close(fd);
}

static bool is_rds(const struct inet_diag_msg *found)
{
	return found->id.idiag_sport == htons(RDS_TCP_PORT) || found->id.idiag_dport == htons(RDS_TCP_PORT);
}

/* True when the kernel's dump was complete. */
static bool destroy_some(struct caller *c, int ns, char *text, int len)
{
	for (struct nlmsghdr *h = (struct nlmsghdr *)text; NLMSG_OK(h, (unsigned int)len); h = NLMSG_NEXT(h, len)) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
			return true;
		if (is_rds(NLMSG_DATA(h)) && chance(c, 3))
			destroy_one(c, ns, NLMSG_DATA(h));
	}
	return false;
}

void destroy_connections(struct caller *c, int ns)
{
	struct diag_request r = diag_request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, chance(c, 2) ? AF_INET : AF_INET6);
	static char text[32768] __attribute__((aligned(8)));
	int fd = socket_in(ns, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG), len;

	if (fd < 0)
		return;
	NEED(send(fd, &r, sizeof(r), 0) == sizeof(r));
	do
		len = recv(fd, text, sizeof(text), 0);
	while (len > 0 && !destroy_some(c, ns, text, len));
	close(fd);
}
