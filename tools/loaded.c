// SPDX-License-Identifier: GPL-2.0
#include "loaded.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The versions of hawser's modules begin with this; the kernel's own have others, or none. */
static const char prefix[] = "hawser-";

static const char *const names[] = { "rds", "rds_tcp", "rds_rdma", "kcm", "rtrs_core", "rtrs_client", "rtrs_server" };

bool module_is_loaded(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/module/%s", name);
	return !access(path, F_OK);
}

/* An empty text when the module has no version. */
static void read_version(const char *name, char *version, int size)
{
	char path[64];
	FILE *file;

	version[0] = '\0';
	snprintf(path, sizeof(path), "/sys/module/%s/version", name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(version, size, file))
		version[0] = '\0';
	fclose(file);
	version[strcspn(version, "\n")] = '\0';
}

static void print_module(const char *name)
{
	const size_t length = strlen(prefix);
	char version[64];

	read_version(name, version, sizeof(version));
	if (strncmp(version, prefix, length))
		printf("%s: the kernel's own module, not hawser's\n", name);
	else if (strcmp(version + length, HAWSER_VERSION))
		printf("%s: hawser's module %s, another version than this program\n", name, version + length);
	else
		printf("%s: hawser's module %s\n", name, version + length);
}

void print_loaded_modules(void)
{
	size_t i;

	if (!module_is_loaded(names[0]))
		printf("%s: not loaded\n", names[0]);
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (module_is_loaded(names[i]))
			print_module(names[i]);
	}
}
