/* SPDX-License-Identifier: GPL-2.0 */
/* Programs of BPF, and those for KCM: classic socket filters, assembled by hand and loaded with bpf(2). */
#ifndef SELFTESTS_LIB_PARSER_H
#define SELFTESTS_LIB_PARSER_H

#include <linux/bpf.h>
#include <stddef.h>

/* The instructions that a parser needs. DO_LOAD finds the packet through the register PARSER_CONTEXT. */
#define PARSER_CONTEXT BPF_REG_6
#define DO_COPY(to, from) \
	((struct bpf_insn){ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from) })
#define DO_SET(to, value) ((struct bpf_insn){ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value) })
#define DO_ADD(to, value) ((struct bpf_insn){ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = (to), .imm = (value) })
/* Into r0, from a constant offset; missing bytes end the program with 0. */
#define DO_LOAD(size, offset) ((struct bpf_insn){ .code = BPF_LD | BPF_ABS | (size), .imm = (offset) })
#define DO_EXIT ((struct bpf_insn){ .code = BPF_JMP | BPF_EXIT })

/** program_load - a program of any type; the caller closes it */
int program_load(enum bpf_prog_type type, const struct bpf_insn *code, size_t count);
/** parser_load - a program of the type for KCM; the caller closes it */
int parser_load(const struct bpf_insn *code, size_t count);
/** parser_framed - the documentation's: a big-endian length of the payload, and the payload; never closed */
int parser_framed(void);
/** parser_constant - one that returns @value for every message */
int parser_constant(int value);
/** parser_first_byte - the first byte is the length */
int parser_first_byte(void);
/** program_of_another_kind - a program that KCM must refuse */
int program_of_another_kind(void);

#endif
