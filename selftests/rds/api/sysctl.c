// SPDX-License-Identifier: GPL-2.0
#include "api.h"

#include <fcntl.h>

#define DIR "/proc/sys/net/rds/"

static bool reads(const char *name, const char *want)
{
	char path[128], got[64] = "";
	bool same;

	snprintf(path, sizeof(path), DIR "%s", name);
	same = read_file(path, got, sizeof(got)) && !strcmp(got, want);
	if (!same)
		note("%s is '%s'", name, got);
	return same;
}

static int writes(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), DIR "%s", name);
	return write_file(path, value);
}

static void defaults(void)
{
	static const struct {
		const char *name, *value;
	} all[] = {
		{ "reconnect_min_delay_ms", "4" },
		{ "reconnect_max_delay_ms", "1000" },
		{ "max_unacked_packets", "8" },
		{ "max_unacked_bytes", "16777216" },
		{ "ping_enable", "1" },
		{ "tcp/rds_tcp_sndbuf", "0" },
		{ "tcp/rds_tcp_rcvbuf", "0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		check(reads(all[i].name, all[i].value), "sysctl: %s is %s", all[i].name, all[i].value);
	differs(reads("pf_rds", "21"), "sysctl-family", "sysctl: pf_rds is the family");
	differs(reads("sol_rds", "276"), "sysctl-family", "sysctl: sol_rds is the option level");
}

static void bounds(void)
{
	EXPECT_OK(writes("reconnect_min_delay_ms", "8"), "sysctl: reconnect_min_delay_ms takes 8");
	check(reads("reconnect_min_delay_ms", "8"), "sysctl: reconnect_min_delay_ms keeps 8");
	EXPECT_ERRNO(writes("reconnect_min_delay_ms", "0"), EINVAL, "sysctl: no delay at all");
	EXPECT_ERRNO(writes("reconnect_min_delay_ms", "2000"), EINVAL, "sysctl: minimum above maximum");
	EXPECT_ERRNO(writes("reconnect_max_delay_ms", "4"), EINVAL, "sysctl: maximum below minimum");
	EXPECT_OK(writes("reconnect_max_delay_ms", "2000"), "sysctl: reconnect_max_delay_ms takes 2000");
	check(reads("reconnect_max_delay_ms", "2000"), "sysctl: reconnect_max_delay_ms keeps 2000");
	EXPECT_OK(writes("reconnect_max_delay_ms", "1000"), "sysctl: reconnect_max_delay_ms back to 1000");
	EXPECT_OK(writes("reconnect_min_delay_ms", "4"), "sysctl: reconnect_min_delay_ms back to 4");
}

static void garbage(void)
{
	static const char *const names[] = { "reconnect_min_delay_ms",
					     "reconnect_max_delay_ms",
					     "max_unacked_packets",
					     "max_unacked_bytes",
					     "ping_enable",
					     "tcp/rds_tcp_sndbuf",
					     "tcp/rds_tcp_rcvbuf" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		EXPECT_ERRNO(writes(names[i], "much"), EINVAL, "sysctl: %s refuses a word", names[i]);
	EXPECT_ERRNO(writes("tcp/rds_tcp_sndbuf", "100"), EINVAL, "sysctl: rds_tcp_sndbuf too small");
	EXPECT_ERRNO(writes("tcp/rds_tcp_rcvbuf", "100"), EINVAL, "sysctl: rds_tcp_rcvbuf too small");
}

static void permissions(void)
{
	int error = 0;

	NEED(seteuid(65534) == 0);
	if (writes("ping_enable", "1") < 0)
		error = errno;
	NEED(seteuid(0) == 0);
	EXPECT_EQ(error, EACCES, "sysctl: only root writes");
	check(reads("ping_enable", "1"), "sysctl: readable for all users");
}

void api_sysctl(void)
{
	defaults();
	bounds();
	garbage();
	permissions();
}
