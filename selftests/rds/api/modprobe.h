/* SPDX-License-Identifier: GPL-2.0 */
/* Replaces modprobe(8), to detect that the kernel requests a module. */
#ifndef SELFTESTS_RDS_MODPROBE_H
#define SELFTESTS_RDS_MODPROBE_H

#include <stdbool.h>

/** modprobe_if_called - record the call and exit, if the kernel started this program as its modprobe */
void modprobe_if_called(int argc, char **argv);
/** modprobe_watch - from now on this program is the kernel's modprobe */
void modprobe_watch(void);
/** modprobe_seen - true if it was called; restores the kernel's modprobe */
bool modprobe_seen(void);

#endif
