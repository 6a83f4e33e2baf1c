// SPDX-License-Identifier: GPL-2.0
//
// A QEMU plugin that counts where a guest spends its instructions between two marks.
//
// A mark is a no-op with an unusual displacement (see selftests/bench/bench.c): MARK_BEGIN zeroes the counts, MARK_END
// appends them to the file given as out=FILE: "mark NUMBER", then "ADDRESS RUNS INSTRUCTIONS" for each block of code
// that ran. A count that QEMU adds inline costs little, and marks exclude the rest of the boot.
//
// The few functions of QEMU's plugin interface, version 1, are declared here: no package carries its header.
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = 1;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *counter, uint64_t n);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
						   void (*cb)(unsigned int cpu, void *data), int flags, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

enum { ADD_U64 = 0, NO_REGISTERS = 0, MARK_SIZE = 7, BUCKETS = 1 << 16 };

// nopl 0x01484157(%rax) and 0x02484157(%rax)
static const uint8_t mark_code[MARK_SIZE - 1] = { 0x0f, 0x1f, 0x80, 0x57, 0x41, 0x48 };
#define MARK_BEGIN 1
#define MARK_END 2

struct block {
	struct block *next;
	uint64_t address, instructions, runs;
};

static struct block *blocks[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char path[4096];
static unsigned int marks;

// The record of a block of code; it is never freed, as translated code points to it.
static struct block *block_of(uint64_t address, uint64_t instructions)
{
	struct block **bucket = &blocks[(address * 0x9e3779b97f4a7c15ull) >> 48], *block;

	pthread_mutex_lock(&lock);
	for (block = *bucket; block; block = block->next)
		if (block->address == address && block->instructions == instructions)
			break;
	if (!block) {
		block = calloc(1, sizeof(*block));
		if (!block)
			abort();
		block->address = address;
		block->instructions = instructions;
		block->next = *bucket;
		*bucket = block;
	}
	pthread_mutex_unlock(&lock);
	return block;
}

static void begin(unsigned int cpu, void *data)
{
	(void)cpu, (void)data;
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct block *block = blocks[i]; block; block = block->next)
			block->runs = 0;
}

static void end(unsigned int cpu, void *data)
{
	FILE *out = fopen(path, "a");

	(void)cpu, (void)data;
	if (!out) {
		perror(path);
		abort();
	}
	fprintf(out, "mark %u\n", marks++);
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct block *block = blocks[i]; block; block = block->next)
			if (block->runs)
				fprintf(out, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", block->address, block->runs,
					block->instructions);
	fclose(out);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct block *block = block_of(qemu_plugin_tb_vaddr(tb), count);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &block->runs, 1);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);

		if (qemu_plugin_insn_size(insn) != MARK_SIZE || memcmp(code, mark_code, sizeof(mark_code)))
			continue;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, code[MARK_SIZE - 1] == MARK_BEGIN ? begin : end,
						       NO_REGISTERS, NULL);
	}
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			snprintf(path, sizeof(path), "%s", argv[i] + 4);
	if (!*path) {
		fprintf(stderr, "plugin: out=FILE is missing\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
