// SPDX-License-Identifier: GPL-2.0
#include "kcm-socket.h"

#include "kcm-frame.h"
#include "program.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/kcm.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For older C libraries. */
#ifndef AF_KCM
#define AF_KCM 41
#endif
#ifndef SOL_KCM
#define SOL_KCM 281
#endif

int kcm_open(void)
{
	int fd = socket(AF_KCM, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, KCMPROTO_CONNECTED);
	int error;

	if (fd < 0 && errno == EAFNOSUPPORT)
		die("this kernel has no KCM; 'modprobe kcm' loads it");
	if (fd < 0)
		die("cannot open a KCM socket: %s", strerror(errno));
	error = kcm_set(fd, KCM_ERRORS, 1);
	if (error == -ENOPROTOOPT)
		die("this is the kernel's own KCM, which does not report a message's connection");
	if (error)
		die("cannot enable KCM_ERRORS: %s", strerror(-error));
	return fd;
}

int kcm_clone(int kcm)
{
	struct kcm_clone clone = { .fd = -1 };

	return ioctl(kcm, SIOCKCMCLONE, &clone) ? -errno : clone.fd;
}

/*
 * Assembled by hand, so that neither a compiler for BPF nor a library is needed. A load beyond the bytes in the
 * packet ends the program with 0, which makes KCM wait for more.
 */
int kcm_load_parser(size_t max_size)
{
	const int length_size = sizeof(((struct frame_head *)NULL)->length);
	const int refused = 2; /* instructions ahead */
	const struct bpf_insn code[] = {
		/* Loads expect the packet in r6. */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_6, .src_reg = BPF_REG_1 },
		{ .code = BPF_LD | BPF_ABS | BPF_W, .imm = offsetof(struct frame_head, length) },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_0, .imm = length_size },
		{ .code = BPF_JMP | BPF_JLT | BPF_K, .dst_reg = BPF_REG_0, .off = refused, .imm = FRAME_MIN },
		{ .code = BPF_JMP | BPF_JGT | BPF_K, .dst_reg = BPF_REG_0, .off = refused - 1, .imm = (int)max_size },
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
		die("cannot load the parser program: %s%s", strerror(errno),
		    errno == EPERM ? " (it takes root, or CAP_BPF)" : "");
	return fd;
}

int kcm_attach(int kcm, int tcp, int parser)
{
	const struct kcm_attach attach = { .fd = tcp, .bpf_fd = parser };

	return ioctl(kcm, SIOCKCMATTACH, &attach) ? -errno : 0;
}

int kcm_unattach(int kcm, int tcp)
{
	const struct kcm_unattach unattach = { .fd = tcp };

	return ioctl(kcm, SIOCKCMUNATTACH, &unattach) ? -errno : 0;
}

uint64_t kcm_id(int kcm, int tcp)
{
	struct kcm_attached attached = { .fd = tcp };
	socklen_t size = sizeof(attached);

	if (getsockopt(kcm, SOL_KCM, KCM_ATTACHED, &attached, &size))
		die("cannot get the id of a connection from KCM: %s", strerror(errno));
	return attached.id;
}

int kcm_set(int kcm, int option, int value)
{
	return setsockopt(kcm, SOL_KCM, option, &value, sizeof(value)) ? -errno : 0;
}

int kcm_connections(int kcm, struct kcm_connection_stats *stats, size_t room)
{
	socklen_t size = (socklen_t)(room * sizeof(*stats));

	return getsockopt(kcm, SOL_KCM, KCM_STATS, stats, &size) ? -errno : (int)(size / sizeof(*stats));
}

int kcm_is_up(int kcm, uint64_t connection)
{
	static __thread struct kcm_connection_stats stats[KCM_MOST_CONNECTIONS];
	int count = kcm_connections(kcm, stats, KCM_MOST_CONNECTIONS);

	for (int i = 0; i < count; i++)
		if (stats[i].id == connection)
			return !stats[i].error;
	return count < 0 ? count : 0;
}

int kcm_take_error(int kcm)
{
	socklen_t size = sizeof(int);
	int error = 0;

	return getsockopt(kcm, SOL_SOCKET, SO_ERROR, &error, &size) ? errno : error;
}

static void read_control(const struct cmsghdr *c, struct kcm_runs *runs, uint64_t *connection)
{
	struct kcm_connection name;

	if (c->cmsg_level != SOL_KCM)
		return;
	if (c->cmsg_type == KCM_CONNECTION) {
		memcpy(&name, CMSG_DATA(c), sizeof(name));
		*connection = name.id;
	} else if (c->cmsg_type == KCM_LENGTHS && runs->count < KCM_MOST_RUNS) {
		runs->run[runs->count++] = (struct kcm_run){
			.connection = *connection,
			.lengths = (const uint32_t *)CMSG_DATA(c),
			.count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(uint32_t)),
		};
	}
}

int kcm_receive(int kcm, void *bytes, size_t room, struct kcm_runs *runs)
{
	struct iovec piece = { bytes, room };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &runs->control,
		.msg_controllen = sizeof(runs->control),
	};
	ssize_t got = recvmsg(kcm, &message, MSG_DONTWAIT);
	uint64_t connection = 0;
	char *at = bytes;
	int count = 0;

	if (got < 0)
		return -errno;
	runs->count = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
		read_control(c, runs, &connection);
	for (uint32_t i = 0; i < runs->count; i++) {
		struct kcm_run *run = &runs->run[i];

		run->bytes = at;
		count += (int)run->count;
		for (uint32_t k = 0; k < run->count; k++)
			at += run->lengths[k];
	}
	if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || at != (char *)bytes + got || !connection)
		die("KCM delivered %zd bytes, flags %#x, that are no messages", got, message.msg_flags);
	return count;
}

ssize_t kcm_send(int kcm, const struct kcm_run *run)
{
	const struct kcm_connection to = { .id = run->connection };
	uint32_t count = run->count < KCM_MOST_IN_RUN ? run->count : KCM_MOST_IN_RUN;
	struct iovec piece = { .iov_base = run->bytes };
	union {
		struct cmsghdr align;
		char bytes[KCM_RUN_CONTROL];
	} control;
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(sizeof(to)) + CMSG_SPACE(count * sizeof(uint32_t)),
	};
	struct cmsghdr *c;

	memset(&control, 0, message.msg_controllen);
	for (uint32_t i = 0; i < count; i++)
		piece.iov_len += run->lengths[i];
	c = CMSG_FIRSTHDR(&message);
	*c = (struct cmsghdr){ .cmsg_level = SOL_KCM, .cmsg_type = KCM_CONNECTION, .cmsg_len = CMSG_LEN(sizeof(to)) };
	memcpy(CMSG_DATA(c), &to, sizeof(to));
	c = CMSG_NXTHDR(&message, c);
	*c = (struct cmsghdr){ .cmsg_level = SOL_KCM, .cmsg_type = KCM_LENGTHS, .cmsg_len = CMSG_LEN(count * sizeof(uint32_t)) };
	memcpy(CMSG_DATA(c), run->lengths, count * sizeof(uint32_t));
	return sendmsg(kcm, &message, MSG_DONTWAIT);
}

uint32_t kcm_run_advance(struct kcm_run *run, size_t bytes)
{
	uint32_t done = 0;

	while (run->count && run->lengths[0] <= bytes) {
		bytes -= run->lengths[0];
		run->bytes += run->lengths[0];
		run->lengths++;
		run->count--;
		done++;
	}
	return done;
}
