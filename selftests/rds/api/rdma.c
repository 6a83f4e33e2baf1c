// SPDX-License-Identifier: GPL-2.0
/* Results of RDMA requests without RDMA: on TCP's addresses and on loopback's. */
#include "api.h"

#define TEXT(p) ((uintptr_t)(p))

static struct rds_iovec vector;
static char memory[8192] __attribute__((aligned(4096)));

static struct rds_rdma_args good_args(void)
{
	vector = (struct rds_iovec){ TEXT(memory), 4096 };
	return (struct rds_rdma_args){ .remote_vec = { 0, 4096 },
				       .local_vec_addr = TEXT(&vector),
				       .nr_local = 1 };
}

static int send_one(int fd, int type, const void *data, size_t len)
{
	struct addr self = addr_of(fd);
	struct control c = { .len = 0 };

	control_add(&c, SOL_RDS, type, data, len);
	return send_control(fd, "x", 1, &self, &c, 0);
}

static int send_args(int fd, const struct rds_rdma_args *args)
{
	return send_one(fd, RDS_CMSG_RDMA_ARGS, args, sizeof(*args));
}

static void transfers(int fd, const char *where)
{
	struct rds_rdma_args args = good_args();

	EXPECT_ERRNO(send_one(fd, RDS_CMSG_RDMA_ARGS, &args, sizeof(args) - 1), EINVAL,
		     "rdma args: short, %s", where);
	args.remote_vec.bytes = MAX_MESSAGE + 1;
	EXPECT_ERRNO(send_args(fd, &args), EMSGSIZE, "rdma args: more than 1 MiB, %s", where);
	args = good_args();
	args.nr_local = 0;
	EXPECT_ERRNO(send_args(fd, &args), EINVAL, "rdma args: no local memory, %s", where);
	args.nr_local = 1025;
	EXPECT_ERRNO(send_args(fd, &args), EMSGSIZE, "rdma args: too many vectors, %s", where);
	args = good_args();
	args.local_vec_addr = TEXT(bad_pointer());
	EXPECT_ERRNO(send_args(fd, &args), EFAULT, "rdma args: bad vector pointer, %s", where);
	args = good_args();
	vector.addr = ~0ULL - 100;
	EXPECT_ERRNO(send_args(fd, &args), EINVAL, "rdma args: memory that wraps, %s", where);
	args = good_args();
	EXPECT_ERRNO(send_args(fd, &args), EOPNOTSUPP, "rdma args: not supported, %s", where);
}

static void destinations(int fd, const char *where)
{
	struct rds_get_mr_args map = { .vec = { TEXT(memory), 4096 } };
	uint64_t cookie = 0x1234567800000000ULL;

	EXPECT_ERRNO(send_one(fd, RDS_CMSG_RDMA_DEST, &cookie, 7), EINVAL, "rdma dest: short, %s", where);
	EXPECT_ERRNO(send_one(fd, RDS_CMSG_RDMA_DEST, &cookie, 8), EINVAL, "rdma dest: unknown key, %s",
		     where);
	EXPECT_ERRNO(send_one(fd, RDS_CMSG_RDMA_MAP, &map, sizeof(map) - 1), EINVAL, "rdma map: short, %s",
		     where);
	EXPECT_ERRNO(send_one(fd, RDS_CMSG_RDMA_MAP, &map, sizeof(map)), EOPNOTSUPP,
		     "rdma map: not supported, %s", where);
}

static void atomics(int fd, const char *where)
{
	static const int types[] = { RDS_CMSG_ATOMIC_FADD, RDS_CMSG_ATOMIC_CSWP, RDS_CMSG_MASKED_ATOMIC_FADD,
				     RDS_CMSG_MASKED_ATOMIC_CSWP };
	struct rds_atomic_args args = { .local_addr = TEXT(memory) };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		EXPECT_ERRNO(send_one(fd, types[i], &args, sizeof(args) - 1), EINVAL, "atomic %d: short, %s",
			     types[i], where);
		EXPECT_ERRNO(send_one(fd, types[i], &args, sizeof(args)), EOPNOTSUPP,
			     "atomic %d: not supported, %s", types[i], where);
	}
}

/* A message carries either an operation or the destination of one, not both; and only one of each. */
static void combinations(int fd, const char *where)
{
	struct rds_rdma_args args = good_args();
	struct rds_atomic_args atomic = { .local_addr = TEXT(memory) };
	uint64_t cookie = 0x1234567800000000ULL;
	struct addr self = addr_of(fd);
	struct control c = { .len = 0 };

	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, &cookie, sizeof(cookie));
	EXPECT_ERRNO(send_control(fd, "x", 1, &self, &c, 0), EINVAL, "rdma: args and dest, %s", where);
	c.len = 0;
	control_add(&c, SOL_RDS, RDS_CMSG_ATOMIC_FADD, &atomic, sizeof(atomic));
	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_DEST, &cookie, sizeof(cookie));
	EXPECT_ERRNO(send_control(fd, "x", 1, &self, &c, 0), EINVAL, "rdma: atomic and dest, %s", where);
	c.len = 0;
	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	control_add(&c, SOL_RDS, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
	EXPECT_ERRNO(send_control(fd, "x", 1, &self, &c, 0), EINVAL, "rdma: args twice, %s", where);
}

static void regions(int fd, const char *where)
{
	struct rds_get_mr_args get = { .vec = { TEXT(memory), 4096 } };
	struct rds_get_mr_for_dest_args dest = { .vec = { TEXT(memory), 4096 } };
	struct rds_free_mr_args free_args = { 0 }, unknown = { .cookie = 0x1234567800000000ULL };

	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_GET_MR, &get, sizeof(get)), EOPNOTSUPP,
		     "RDS_GET_MR: not supported, %s", where);
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_GET_MR_FOR_DEST, &dest, sizeof(dest)), EOPNOTSUPP,
		     "RDS_GET_MR_FOR_DEST: not supported, %s", where);
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_FREE_MR, &free_args, sizeof(free_args)), EINVAL,
		     "RDS_FREE_MR: nothing to flush, %s", where);
	EXPECT_ERRNO(setsockopt(fd, SOL_RDS, RDS_FREE_MR, &unknown, sizeof(unknown)), EINVAL,
		     "RDS_FREE_MR: unknown key, %s", where);
}

/* Lengths, pointers and an unbound socket, in that order. */
static void region_arguments(void)
{
	static const struct {
		int option;
		socklen_t len;
		const char *name;
	} options[] = {
		{ RDS_GET_MR, sizeof(struct rds_get_mr_args), "RDS_GET_MR" },
		{ RDS_GET_MR_FOR_DEST, sizeof(struct rds_get_mr_for_dest_args), "RDS_GET_MR_FOR_DEST" },
		{ RDS_FREE_MR, sizeof(struct rds_free_mr_args), "RDS_FREE_MR" },
	};
	char zeroes[512] = { 0 };
	int fd = rds_socket(HERE);

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int option = options[i].option;
		socklen_t len = options[i].len;

		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, zeroes, len - 1), EINVAL, "%s: short",
			     options[i].name);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, zeroes, len + 1), EINVAL, "%s: long",
			     options[i].name);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, bad_pointer(), len), EFAULT, "%s: bad pointer",
			     options[i].name);
		EXPECT_ERRNO(setsockopt(fd, SOL_RDS, option, zeroes, len),
			     option == RDS_FREE_MR ? EINVAL : ENOTCONN, "%s: unbound", options[i].name);
	}
	close(fd);
}

void api_rdma(void)
{
	region_arguments();
	for (size_t i = 0; i < PLACES; i++) {
		int fd = rds_bound(HERE, places[i].text, 0);

		transfers(fd, places[i].text);
		destinations(fd, places[i].text);
		atomics(fd, places[i].text);
		combinations(fd, places[i].text);
		regions(fd, places[i].text);
		check(rds_recv(fd, memory, 1, NULL, MSG_DONTWAIT) < 0 && errno == EAGAIN,
		      "rdma: no refused message was sent, %s", places[i].text);
		close(fd);
	}
}
