// SPDX-License-Identifier: GPL-2.0
//
// What the lab's agent reports at the end of a scene: leaks, taint, and which modules are loaded.

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

#define KMEMLEAK_PATH "/sys/kernel/debug/kmemleak"

static size_t read_file(const char *path, char *data, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, data, size);
	close(fd);
	return n > 0 ? n : 0;
}

static bool command_kmemleak(const char *command)
{
	int fd = open(KMEMLEAK_PATH, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, command, strlen(command)) > 0;

	if (fd >= 0)
		close(fd);
	return written;
}

// Two scans: an object counts as leaked when it is older than five seconds and unchanged between scans. A kernel that
// has kmemleak and does not scan any more (it switches itself off without memory) proves nothing.
void report_leaks(int port)
{
	static const char off[] = "kmemleak switched itself off: leaks are unknown\n";
	static char data[PAYLOAD_MAX / 2];
	bool scanned;
	size_t n;

	if (access(KMEMLEAK_PATH, F_OK))
		return;
	scanned = command_kmemleak("scan");
	sleep(6);
	if (!scanned || !command_kmemleak("scan")) {
		send_frame(port, "leak", 0, off, sizeof(off) - 1);
		return;
	}
	n = read_file(KMEMLEAK_PATH, data, sizeof(data));
	if (n)
		send_frame(port, "leak", 0, data, n);
	command_kmemleak("clear");
}

// Appends "module NAME BUILD-ID" for every loaded module.
static size_t list_modules(char *text, size_t size)
{
	DIR *dir = opendir("/sys/module");
	struct dirent *entry;
	size_t used = 0;

	while (dir && (entry = readdir(dir)) && used + 512 < size) {
		unsigned char note[64];
		char path[320];
		size_t n;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/module/%s/notes/.note.gnu.build-id", entry->d_name);
		n = read_file(path, (char *)note, sizeof(note));
		if (n <= 16)	// the note's head: three words and "GNU\0"
			continue;
		used += snprintf(text + used, size - used, "module %s ", entry->d_name);
		for (size_t i = 16; i < n; i++)
			used += snprintf(text + used, size - used, "%02x", note[i]);
		used += snprintf(text + used, size - used, "\n");
	}
	if (dir)
		closedir(dir);
	return used;
}

void report_end(int port, int status)
{
	static char text[PAYLOAD_MAX];
	char taint[32] = "";
	size_t n = read_file("/proc/sys/kernel/tainted", taint, sizeof(taint) - 1);

	taint[n] = 0;
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	n = snprintf(text, sizeof(text), "exit %d\ntaint %ld\n", status, strtol(taint, NULL, 10));
	n += list_modules(text + n, sizeof(text) - n);
	send_frame(port, "report", 0, text, n);
}
