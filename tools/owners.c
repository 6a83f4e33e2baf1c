// SPDX-License-Identifier: GPL-2.0
#include "owners.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* When they have been read, sorted by their sockets, of each one the process with the lowest number. */
static struct owner *owners;
static size_t owner_count;
static bool have_read;

static void add_owner(const struct owner *owner)
{
	/* The array doubles when the count is a power of two. */
	if (!(owner_count & (owner_count - 1))) {
		size_t room = owner_count ? 2 * owner_count : 1;
		struct owner *larger = realloc(owners, room * sizeof(*owners));

		if (!larger)
			return;
		owners = larger;
	}
	owners[owner_count++] = *owner;
}

static void read_command(int process, char *command, size_t size)
{
	int file = openat(process, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t length = 0;

	if (file >= 0) {
		length = read(file, command, size - 1);
		close(file);
	}
	command[length > 0 ? length : 0] = '\0';
	command[strcspn(command, "\n")] = '\0';
}

/* Records every socket that the process has open; @process is its folder in /proc. */
static void read_process(int process, pid_t pid)
{
	struct owner owner = { .pid = pid };
	int descriptors = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = descriptors >= 0 ? fdopendir(descriptors) : NULL;
	struct dirent *entry;

	if (!folder) {
		if (descriptors >= 0)
			close(descriptors);
		return;
	}
	read_command(process, owner.command, sizeof(owner.command));
	while ((entry = readdir(folder))) {
		char target[64];
		ssize_t length = readlinkat(descriptors, entry->d_name, target, sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = '\0';
		if (sscanf(target, "socket:[%" SCNu64 "]", &owner.inode) == 1)
			add_owner(&owner);
	}
	closedir(folder);
}

static void read_all(void)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		int process;

		if (pid <= 0)
			continue;
		process = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process < 0)
			continue;
		read_process(process, pid);
		close(process);
	}
	if (folder)
		closedir(folder);
}

static int compare(const void *one, const void *other)
{
	const struct owner *a = one, *b = other;

	return a->inode != b->inode ? (a->inode < b->inode ? -1 : 1) : a->pid - b->pid;
}

static void sort_and_keep_first(void)
{
	size_t i, kept = 0;

	if (owner_count)
		qsort(owners, owner_count, sizeof(*owners), compare);
	for (i = 0; i < owner_count; i++) {
		if (!kept || owners[kept - 1].inode != owners[i].inode)
			owners[kept++] = owners[i];
	}
	owner_count = kept;
}

static int compare_inode(const void *inode, const void *owner)
{
	const uint64_t wanted = *(const uint64_t *)inode, found = ((const struct owner *)owner)->inode;

	return wanted < found ? -1 : wanted > found;
}

bool owner_find(uint64_t inode, struct owner *owner)
{
	const struct owner *found;

	if (!have_read) {
		read_all();
		sort_and_keep_first();
		have_read = true;
	}
	found = owner_count ? bsearch(&inode, owners, owner_count, sizeof(*owners), compare_inode) : NULL;
	if (found)
		*owner = *found;
	return found;
}

void owners_forget(void)
{
	free(owners);
	owners = NULL;
	owner_count = 0;
	have_read = false;
}
