/* SPDX-License-Identifier: GPL-2.0 */
/* Memory for calls: content that can be told apart again, memory that nobody can rely on, room that must not be left. */
#ifndef SELFTESTS_LIB_FUZZ_MEMORY_H
#define SELFTESTS_LIB_FUZZ_MEMORY_H

#include <sys/uio.h>

#include "caller.h"

void memory_open(void);
/** content - memory that never changes and says of each of its words where it is; *@size is cut to what is there */
const char *content(struct caller *c, size_t *size);
/** is_content - are these eight bytes a word of it? */
bool is_content(const char *word);
/** content_holds - is this, if it is of content, content without a gap? */
bool content_holds(const char *data, size_t size);
/** source, sink - memory that is unmapped, protected and replaced all the time; to send from, to receive to */
char *source(struct caller *c, size_t *size);
char *sink(struct caller *c, size_t *size);
/** vandal - the thread that does it */
void vandal(struct caller *c);

/** make_room - room for a message: so many bytes of the caller's inbox, and a canary behind them */
size_t make_room(struct caller *c);
void check_canary(struct caller *c, size_t room);
/** cut - describes @size bytes as pieces, some of them empty; how many */
#define PIECES 8
size_t cut(struct caller *c, struct iovec pieces[PIECES], const char *data, size_t size);

#endif
