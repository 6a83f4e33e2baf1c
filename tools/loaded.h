/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_LOADED_H
#define HAWSER_TOOLS_LOADED_H

#include <stdbool.h>

/*
 * Prints, for each module of which hawser and the kernel both have one, which of the two is loaded. After a kernel update
 * for which hawser's modules were not built, modprobe loads the kernel's own without a message.
 */
void print_loaded_modules(void);

/* Whether a module of that name is loaded, of either kind. */
bool module_is_loaded(const char *name);

#endif
