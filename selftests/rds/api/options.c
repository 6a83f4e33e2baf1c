// SPDX-License-Identifier: GPL-2.0
#include "api.h"

static int get(int fd, int option, void *value, socklen_t *len)
{
	return getsockopt(fd, SOL_RDS, option, value, len);
}

static void unknown(int fd)
{
	static const int options[] = { 0, 4, 9, 11, 100, 9999, 10018, -1 };
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		socklen_t len = sizeof(buf);

		EXPECT_ERRNO(set_int(fd, SOL_RDS, options[i], 1), ENOPROTOOPT, "setsockopt: %d is unknown",
			     options[i]);
		EXPECT_ERRNO(get(fd, options[i], buf, &len), ENOPROTOOPT, "getsockopt: %d is unknown",
			     options[i]);
	}
	EXPECT_ERRNO(set_int(fd, IPPROTO_TCP, 1, 1), ENOPROTOOPT, "setsockopt: another level");
	EXPECT_ERRNO(getsockopt(fd, IPPROTO_TCP, 1, buf, &(socklen_t){ 4 }), ENOPROTOOPT,
		     "getsockopt: another level");
}

static void write_only(int fd)
{
	static const int options[] = { RDS_CANCEL_SENT_TO,  RDS_GET_MR,
				       RDS_FREE_MR,	    RDS_CONG_MONITOR,
				       RDS_GET_MR_FOR_DEST, SO_RDS_MSG_RXPATH_LATENCY,
				       STAMP_OLD,	    STAMP_NEW };
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		socklen_t len = sizeof(buf);

		EXPECT_ERRNO(get(fd, options[i], buf, &len), ENOPROTOOPT, "getsockopt: %d can only be set",
			     options[i]);
	}
}

static void booleans(int fd)
{
	static const struct {
		int option;
		const char *name;
	} options[] = { { RDS_RECVERR, "RDS_RECVERR" }, { RDS_CONG_MONITOR, "RDS_CONG_MONITOR" } };
	long value = 1;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int option = options[i].option;
		const char *name = options[i].name;

		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, &value, 0), EINVAL, "%s: no length", name);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, &value, 3), EINVAL, "%s: short", name);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, &value, -1), EINVAL, "%s: negative length",
			     name);
		EXPECT_OK(setsockopt(fd, SOL_RDS, option, &value, 8), "%s: longer than needed", name);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, bad_pointer(), 4), EFAULT, "%s: bad pointer",
			     name);
		EXPECT_OK(set_int(fd, SOL_RDS, option, 0), "%s: off", name);
		EXPECT_OK(set_int(fd, SOL_RDS, option, -77), "%s: anything but 0 is on", name);
	}
}

static void recverr(int fd)
{
	int value[2] = { -1, -1 };
	socklen_t len = sizeof(value);

	NEED(set_int(fd, SOL_RDS, RDS_RECVERR, -77) == 0);
	check(get(fd, RDS_RECVERR, value, &len) == 0 && value[0] == 1 && len == 4,
	      "RDS_RECVERR: reads 1 when on");
	check(value[1] == -1, "RDS_RECVERR: writes no more than it returns");
	NEED(set_int(fd, SOL_RDS, RDS_RECVERR, 0) == 0);
	check(get(fd, RDS_RECVERR, value, &len) == 0 && value[0] == 0, "RDS_RECVERR: reads 0 when off");
	len = 3;
	EXPECT_ERRNO(get(fd, RDS_RECVERR, value, &len), EINVAL, "RDS_RECVERR: short buffer");
	len = 4;
	EXPECT_ERRNO(get(fd, RDS_RECVERR, bad_pointer(), &len), EFAULT, "RDS_RECVERR: bad buffer");
	EXPECT_ERRNO(get(fd, RDS_RECVERR, value, bad_pointer()), EFAULT, "RDS_RECVERR: bad length pointer");
	len = -1;
	differs(GIVES(get(fd, RDS_RECVERR, value, &len), EINVAL), "negative-length",
		"RDS_RECVERR: a negative buffer length is refused");
}

static void timestamps(int fd)
{
	static const int options[] = { STAMP_OLD, STAMP_NEW };
	long value = 1;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int option = options[i];

		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, &value, 3), EFAULT, "timestamp %d: short",
			     option);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, &value, 8), EFAULT, "timestamp %d: long",
			     option);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, bad_pointer(), 4), EFAULT,
			     "timestamp %d: bad pointer", option);
		EXPECT_OK(set_int(fd, SOL_RDS, option, 1), "timestamp %d: on", option);
		EXPECT_OK(set_int(fd, SOL_RDS, option, 0), "timestamp %d: off", option);
	}
}

static int set_latency(int fd, uint8_t count, uint8_t last)
{
	struct rds_rx_trace_so so = { .rx_traces = count, .rx_trace_pos = { 0, 1, last } };

	return setsockopt(fd, SOL_RDS, SO_RDS_MSG_RXPATH_LATENCY, &so, sizeof(so));
}

static void latency(int fd)
{
	struct rds_rx_trace_so so = { 0 };

	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, SO_RDS_MSG_RXPATH_LATENCY, &so, sizeof(so) - 1), EFAULT,
		     "rx latency: short");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, SO_RDS_MSG_RXPATH_LATENCY, &so, sizeof(so) + 1), EFAULT,
		     "rx latency: long");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, SO_RDS_MSG_RXPATH_LATENCY, bad_pointer(), sizeof(so)), EFAULT,
		     "rx latency: bad pointer");
	EXPECT_ERRNO(set_latency(fd, RDS_MSG_RX_DGRAM_TRACE_MAX + 1, 2), EFAULT,
		     "rx latency: too many points");
	EXPECT_ERRNO(set_latency(fd, 255, 2), EFAULT, "rx latency: far too many points");
	EXPECT_ERRNO(set_latency(fd, 3, RDS_MSG_RX_DGRAM_TRACE_MAX), EFAULT, "rx latency: no such point");
	EXPECT_OK(set_latency(fd, 2, 255), "rx latency: unused points are not checked");
	EXPECT_OK(set_latency(fd, 3, 2), "rx latency: all points");
	EXPECT_OK(set_latency(fd, 0, 0), "rx latency: off");
}

static int cancel(int fd, const struct addr *a, socklen_t len)
{
	return setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, &a->sa, len);
}

static void cancelling(void)
{
	struct addr to4 = addr("127.0.0.1", 4000), to6 = addr("::1", 4000);
	int loose = rds_socket(HERE), fd = rds_bound(HERE, "127.0.0.1", 0), six = rds_bound(HERE, "::1", 0);

	EXPECT_ERRNO(cancel(loose, &to4, to4.len), ENOTCONN, "RDS_CANCEL_SENT_TO: unbound");
	EXPECT_ERRNO(cancel(fd, &to4, 0), EINVAL, "RDS_CANCEL_SENT_TO: no address");
	EXPECT_ERRNO(cancel(fd, &to4, to4.len - 1), EINVAL, "RDS_CANCEL_SENT_TO: short");
	EXPECT_OK(cancel(fd, &to4, to4.len), "RDS_CANCEL_SENT_TO: IPv4");
	EXPECT_OK(cancel(six, &to6, to6.len), "RDS_CANCEL_SENT_TO: IPv6");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, bad_pointer(), to4.len), EFAULT,
		     "RDS_CANCEL_SENT_TO: bad IPv4 pointer");
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_CANCEL_SENT_TO, bad_pointer(), to6.len), EFAULT,
		     "RDS_CANCEL_SENT_TO: bad IPv6 pointer");
	close(loose);
	close(fd);
	close(six);
}

static void socket_level(int fd)
{
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_DOMAIN), AF_RDS, "SO_DOMAIN: AF_RDS");
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_SEQPACKET, "SO_TYPE: SOCK_SEQPACKET");
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_PROTOCOL), 0, "SO_PROTOCOL: 0");
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_ERROR), 0, "SO_ERROR: none");
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), 0, "SO_ACCEPTCONN: no");
	NEED(set_int(fd, SOL_SOCKET, SO_SNDBUF, 30000) == 0 &&
	     set_int(fd, SOL_SOCKET, SO_RCVBUF, 40000) == 0);
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 60000, "SO_SNDBUF: reads twice as large, as everywhere");
	EXPECT_EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 80000, "SO_RCVBUF: reads twice as large, as everywhere");
}

void api_options(void)
{
	int fd = rds_bound(HERE, "127.0.0.1", 0);

	unknown(fd);
	write_only(fd);
	booleans(fd);
	recverr(fd);
	timestamps(fd);
	latency(fd);
	socket_level(fd);
	close(fd);
	cancelling();
}
