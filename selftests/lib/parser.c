// SPDX-License-Identifier: GPL-2.0
#include "parser.h"

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "util.h"

int program_load(enum bpf_prog_type type, const struct bpf_insn *code, size_t count)
{
	static char log[4096];
	union bpf_attr attr = {
		.prog_type = type,
		.insns = (uintptr_t)code,
		.insn_cnt = count,
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log,
		.log_size = sizeof(log),
		.log_level = 1,
	};
	int fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	if (fd < 0) {
		note("the verifier reports: %s", log);
		NEED(!"BPF_PROG_LOAD");
	}
	return fd;
}

int parser_load(const struct bpf_insn *code, size_t count)
{
	return program_load(BPF_PROG_TYPE_SOCKET_FILTER, code, count);
}

int parser_framed(void)
{
	static const struct bpf_insn code[] = {
		DO_COPY(PARSER_CONTEXT, BPF_REG_1),
		DO_LOAD(BPF_W, 0),
		DO_ADD(BPF_REG_0, 4),
		DO_EXIT,
	};
	static int fd = -1;

	if (fd < 0)
		fd = parser_load(code, ARRAY_SIZE(code));
	return fd;
}

int parser_constant(int value)
{
	struct bpf_insn code[] = { DO_SET(BPF_REG_0, value), DO_EXIT };

	return parser_load(code, ARRAY_SIZE(code));
}

int parser_first_byte(void)
{
	static const struct bpf_insn code[] = {
		DO_COPY(PARSER_CONTEXT, BPF_REG_1),
		DO_LOAD(BPF_B, 0),
		DO_EXIT,
	};

	return parser_load(code, ARRAY_SIZE(code));
}

int program_of_another_kind(void)
{
	static const struct bpf_insn code[] = { DO_SET(BPF_REG_0, 1), DO_EXIT };

	return program_load(BPF_PROG_TYPE_XDP, code, ARRAY_SIZE(code));
}
