/* SPDX-License-Identifier: GPL-2.0 */
/* Stands in for modprobe(8), to see whether the kernel asks for a module. */
#ifndef SELFTESTS_RDS_MODPROBE_H
#define SELFTESTS_RDS_MODPROBE_H

#include <stdbool.h>

/** modprobe_if_called - leave, with a trace, if the kernel started this program as its modprobe */
void modprobe_if_called(int argc, char **argv);
/** modprobe_watch - from now on this program is the kernel's modprobe */
void modprobe_watch(void);
/** modprobe_seen - was it called? The kernel's modprobe is what it was before afterwards. */
bool modprobe_seen(void);

#endif
