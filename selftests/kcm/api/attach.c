// SPDX-License-Identifier: GPL-2.0
/* TCP sockets and programs that a multiplexor accepts. */
#include "api.h"

#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/un.h>

static void bad_descriptors(int kcm)
{
	struct link l = tcp_link(HERE, AF_INET);
	int pipes[2];

	NEED(pipe(pipes) == 0);
	EXPECT_ERRNO(kcm_attach(kcm, -1, parser_framed()), ENOENT, "attach: descriptor -1");
	EXPECT_ERRNO(kcm_attach(kcm, 999, parser_framed()), ENOENT, "attach: descriptor 999");
	EXPECT_ERRNO(kcm_attach(kcm, pipes[0], parser_framed()), ENOENT, "attach: a pipe");
	EXPECT_ERRNO(kcm_attach(kcm, l.near, -1), EBADF, "attach: program -1");
	EXPECT_ERRNO(kcm_attach(kcm, l.near, 999), EBADF, "attach: program 999");
	EXPECT_ERRNO(kcm_attach(kcm, l.near, pipes[0]), EINVAL, "attach: a program that is none");
	close(pipes[0]);
	close(pipes[1]);
	tcp_link_close(&l);
}

static void bad_memory(int kcm)
{
	EXPECT_ERRNO(ioctl(kcm, SIOCKCMATTACH, bad_pointer()), EFAULT, "attach: bad pointer");
	EXPECT_ERRNO(ioctl(kcm, SIOCKCMATTACH, kernel_pointer()), EFAULT, "attach: a pointer of the kernel's");
	EXPECT_ERRNO(ioctl(kcm, SIOCKCMUNATTACH, bad_pointer()), EFAULT, "unattach: bad pointer");
}

static void wrong_program(int kcm)
{
	struct link l = tcp_link(HERE, AF_INET);
	int other = program_of_another_kind();

	EXPECT_ERRNO(kcm_attach(kcm, l.near, other), EINVAL, "attach: a program of another type");
	EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "attach: works after failed ones");
	close(other);
	tcp_link_close(&l);
}

static void refused(int kcm, int fd, const char *what)
{
	EXPECT_ERRNO(kcm_attach(kcm, fd, parser_framed()), EOPNOTSUPP, "attach: %s", what);
	close(fd);
}

static int refused_connect(void)
{
	int gone = tcp_listener(HERE, AF_INET), fd = socket(AF_INET, SOCK_STREAM, 0);
	struct addr to = addr_of(gone);

	close(gone);
	NEED(connect(fd, &to.sa, to.len) < 0 && errno == ECONNREFUSED);
	return fd;
}

static int after_reset(void)
{
	struct link l = tcp_link(HERE, AF_INET);

	tcp_reset(l.far);
	NEED(sock_error_soon(l.near) == ECONNRESET);
	return l.near;
}

static void other_sockets(int kcm)
{
	int pair[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	close(pair[1]);
	refused(kcm, pair[0], "AF_UNIX");
	refused(kcm, socket(AF_INET, SOCK_DGRAM, 0), "UDP");
	refused(kcm, socket(AF_INET6, SOCK_DGRAM, 0), "UDP over IPv6");
	refused(kcm, kcm_socket(HERE, SOCK_DGRAM), "another KCM socket");
	refused(kcm, dup(kcm), "a KCM socket to itself");
	refused(kcm, tcp_listener(HERE, AF_INET), "a listener");
	refused(kcm, socket(AF_INET, SOCK_STREAM, 0), "not connected");
	refused(kcm, refused_connect(), "after a connect that was refused");
	refused(kcm, after_reset(), "after a reset");
}

static void any_state(int kcm)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct link l;

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		l = tcp_link(HERE, families[i]);
		EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "attach: TCP over %s",
			  i ? "IPv6" : "IPv4");
		check(kcm_sends(kcm, MEDIUM, i) && peer_takes(l.far, MEDIUM, i), "attach: it sends over %s",
		      i ? "IPv6" : "IPv4");
		peer_send_frame(l.far, MEDIUM, i);
		check(kcm_takes(kcm, MEDIUM, i), "attach: it receives over %s", i ? "IPv6" : "IPv4");
		tcp_link_close(&l);
		/* Unattach it, so that the next one must be chosen. */
		close(kcm);
		kcm = kcm_socket(HERE, SOCK_DGRAM);
	}
	l = tcp_link(HERE, AF_INET);
	NEED(shutdown(l.near, SHUT_WR) == 0);
	EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "attach: the own direction ended");
	peer_send_frame(l.far, MEDIUM, 5);
	check(kcm_takes(kcm, MEDIUM, 5), "attach: the other one delivers");
	tcp_link_close(&l);
	l = tcp_link(HERE, AF_INET);
	NEED(shutdown(l.far, SHUT_WR) == 0 && polled(l.near, POLLIN, SOON_MS));
	EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "attach: the peer's direction ended");
	tcp_link_close(&l);
	close(kcm);
}

/* A connection whose peer has closed its side is probed; a program that has it probed keeps its times. */
static void probed(void)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM);
	struct link l = tcp_link(HERE, AF_INET);

	NEED(shutdown(l.far, SHUT_WR) == 0 && polled(l.near, POLLIN, SOON_MS));
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	check(get_int(l.near, SOL_SOCKET, SO_KEEPALIVE) == 1 && get_int(l.near, IPPROTO_TCP, TCP_KEEPIDLE) == 60,
	      "attach: ... and such a peer is probed");
	tcp_link_close(&l);
	l = tcp_link(HERE, AF_INET);
	NEED(set_int(l.near, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 && set_int(l.near, IPPROTO_TCP, TCP_KEEPIDLE, 5) == 0);
	NEED(set_int(l.near, IPPROTO_TCP, TCP_KEEPINTVL, 1) == 0 && set_int(l.near, IPPROTO_TCP, TCP_KEEPCNT, 3) == 0);
	NEED(shutdown(l.far, SHUT_WR) == 0 && polled(l.near, POLLIN, SOON_MS));
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	check(get_int(l.near, IPPROTO_TCP, TCP_KEEPIDLE) == 5 && get_int(l.near, IPPROTO_TCP, TCP_KEEPINTVL) == 1 &&
		      get_int(l.near, IPPROTO_TCP, TCP_KEEPCNT) == 3,
	      "attach: ... at the times that the program has set");
	tcp_link_close(&l);
	close(kcm);
}

static void twice(void)
{
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int other = kcm_socket(HERE, SOCK_DGRAM), clone = kcm_clone(r.kcm);

	EXPECT_ERRNO(kcm_attach(r.kcm, r.tcp, parser_framed()), EALREADY, "attach: already attached here");
	EXPECT_ERRNO(kcm_attach(clone, r.tcp, parser_framed()), EALREADY, "attach: already attached, by a clone");
	EXPECT_ERRNO(kcm_attach(other, r.tcp, parser_framed()), EALREADY, "attach: already attached elsewhere");
	peer_send_frame(r.peer, MEDIUM, 1);
	check(kcm_takes(r.kcm, MEDIUM, 1) || kcm_takes(clone, MEDIUM, 1), "attach: and stays where it was");
	close(clone);
	close(other);
	rig_close(&r);
}

static void unprivileged(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int program = parser_framed(), kcm = kcm_socket(HERE, SOCK_DGRAM), ret;

	NEED(seteuid(65534) == 0);
	ret = kcm_attach(kcm, l.near, program);
	NEED(seteuid(0) == 0);
	check(ret == 0, "attach: needs no privilege with an existing program");
	close(kcm);
	tcp_link_close(&l);
}

/* Data from before the attachment is parsed like later data. */
static void bytes_before(void)
{
	struct link l = tcp_link(HERE, AF_INET);
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	peer_send_frame(l.far, MEDIUM, 1);
	NEED(polled(l.near, POLLIN, SOON_MS));
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	check(kcm_takes(kcm, MEDIUM, 1), "attach: a message that was there before is delivered");
	close(kcm);
	tcp_link_close(&l);
}

/* The program and the TCP socket's descriptor may be closed: the attachment holds references. */
static void descriptors_closed(void)
{
	int program = parser_constant(10);
	struct rig r = rig_open(SOCK_DGRAM, program);

	close(program);
	close(r.tcp);
	peer_send(r.peer, "0123456789", 10);
	EXPECT_EQ(kcm_recv_soon(r.kcm, buf, sizeof(buf), NULL), 10,
		  "attach: receives with the descriptors of program and TCP socket closed");
	check(kcm_sends(r.kcm, MEDIUM, 3) && peer_takes(r.peer, MEDIUM, 3), "attach: and sends");
	close(r.kcm);
	EXPECT_EQ(peer_reads(r.peer, buf, 1), 0, "attach: closing the last KCM socket ends such a connection");
	close(r.peer);
}

static void set_fast_open(const char *bits)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_fastopen", "w");

	NEED(file && fputs(bits, file) >= 0 && fclose(file) == 0);
}

static int state_of(int tcp)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	NEED(getsockopt(tcp, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
	return info.tcpi_state;
}

/* A socket whose peer has sent data with its SYN, and has not acknowledged the answer: a filter hides that from it. */
static struct link fast_opened(size_t size)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { 1, &nothing };
	struct link l = { .far = socket(AF_INET, SOCK_STREAM, 0) };
	int listener = tcp_listener(HERE, AF_INET);
	struct addr to = addr_of(listener);

	set_fast_open("519"); /* both sides, without cookies */
	NEED(set_int(listener, IPPROTO_TCP, TCP_FASTOPEN, 5) == 0);
	NEED(setsockopt(l.far, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0);
	frame_fill(buf, MEDIUM, 1);
	NEED(sendto(l.far, buf, size, MSG_FASTOPEN | MSG_DONTWAIT, &to.sa, to.len) == (ssize_t)size);
	l.near = accept(listener, NULL, NULL);
	NEED(l.near >= 0 && state_of(l.near) == TCP_SYN_RECV);
	set_fast_open("1");
	close(listener);
	return l;
}

static void before_the_handshake_ends(void)
{
	struct link l = fast_opened(MEDIUM);
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "attach: one with the data of a SYN");
	check(kcm_takes(kcm, MEDIUM, 1), "attach: ... which are received");
	NEED(state_of(l.near) == TCP_SYN_RECV);
	check(kcm_sends(kcm, MEDIUM, 2), "attach: ... and sends");
	NEED(set_int(l.far, SOL_SOCKET, SO_DETACH_FILTER, 0) == 0);
	check(peer_takes(l.far, MEDIUM, 2), "attach: ... what the peer gets when it sees an answer");
	peer_send_frame(l.far, MEDIUM, 3);
	check(kcm_takes(kcm, MEDIUM, 3), "attach: ... and receives what follows");
	close(kcm);
	tcp_link_close(&l);

	l = fast_opened(50);
	kcm = kcm_socket(HERE, SOCK_DGRAM);
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0 && kcm_unattach(kcm, l.near) == 0);
	frame_fill(buf + MEDIUM, MEDIUM, 1);
	check(peer_reads(l.near, buf, 50) == 50 && !memcmp(buf, buf + MEDIUM, 50), "attach: ... and gives a part back");
	NEED(kcm_attach(kcm, l.near, parser_framed()) == 0);
	close(l.far);
	close(kcm);
	close(l.near);
}

void api_attach(void)
{
	int kcm = kcm_socket(HERE, SOCK_DGRAM);

	bad_descriptors(kcm);
	bad_memory(kcm);
	other_sockets(kcm);
	wrong_program(kcm);
	close(kcm);
	any_state(kcm_socket(HERE, SOCK_DGRAM));
	if (ktap_suite() == SUITE_OURS)
		probed();
	twice();
	unprivileged();
	bytes_before();
	descriptors_closed();
	if (ktap_suite() == SUITE_OURS)
		before_the_handshake_ends();
}
