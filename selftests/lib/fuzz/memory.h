/* SPDX-License-Identifier: GPL-2.0 */
/* Memory for calls: content that can be checked, memory that changes all the time, buffers with canaries. */
#ifndef SELFTESTS_LIB_FUZZ_MEMORY_H
#define SELFTESTS_LIB_FUZZ_MEMORY_H

#include <sys/uio.h>

#include "caller.h"

void memory_open(void);
/** content - constant memory in which each word is its position; *@size is limited to the rest */
const char *content(struct caller *c, size_t *size);
/** is_content - true if these eight bytes are a word of it */
bool is_content(const char *word);
/** content_holds - false if this is content with a gap */
bool content_holds(const char *data, size_t size);
/** source, sink - memory that is unmapped, protected and replaced all the time; to send from, to receive to */
char *source(struct caller *c, size_t *size);
char *sink(struct caller *c, size_t *size);
/** vandal - the thread that does it */
void vandal(struct caller *c);

/** make_room - room for a message: bytes of the caller's inbox, and a canary behind them */
size_t make_room(struct caller *c);
void check_canary(struct caller *c, size_t room);
/** cut - describes @size bytes as pieces, some of them empty; returns their number */
#define PIECES 8
size_t cut(struct caller *c, struct iovec pieces[PIECES], const char *data, size_t size);

#endif
