/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_LOADED_H
#define HAWSER_TOOLS_LOADED_H

/*
 * Prints, for each module of which hawser and the kernel both have one, which of the two is loaded. After a kernel update
 * for which hawser's modules were not built, modprobe loads the kernel's own without a message.
 */
void print_loaded_modules(void);

#endif
