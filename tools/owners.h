/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_OWNERS_H
#define HAWSER_TOOLS_OWNERS_H

/*
 * Finds the program that has a socket open; only root can see other users' programs.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct owner {
	uint64_t inode;
	pid_t pid;
	char command[16];
};

/* Finds one process that has the socket with @inode open. All of /proc is read at the first call. */
bool owner_find(uint64_t inode, struct owner *owner);

/* The next owner_find() reads /proc anew. */
void owners_forget(void);

#endif
