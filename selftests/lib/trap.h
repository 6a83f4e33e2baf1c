/* SPDX-License-Identifier: GPL-2.0 */
/* Memory that stalls each access, also by the kernel, until it is released (userfaultfd). */
#ifndef SELFTESTS_LIB_TRAP_H
#define SELFTESTS_LIB_TRAP_H

#include <stdbool.h>

#define TRAP_PAGE 4096
#define TRAP_SIZE (3 * TRAP_PAGE)

/* Three pages: the first holds ones, the last threes, the one in the middle stalls. */
struct trap {
	int fd;
	char *memory;
	bool writes; /* only these stall */
};

struct trap trap_new(void); /* the page in the middle will hold zeros */
struct trap trap_for_writes(void); /* it holds twos */
/** trap_sprung - true if an access stalls within SOON_MS */
bool trap_sprung(struct trap *t);
void trap_release(struct trap *t);
void trap_delete(struct trap *t);

#endif
