// SPDX-License-Identifier: GPL-2.0
#include "xfer.h"

#include <fcntl.h>

#define FAULTS "/sys/kernel/debug/"

static const char *const kinds[] = { FAULTS "failslab", FAULTS "fail_page_alloc" };
static int probability[ARRAY_SIZE(kinds)];

static void configure(const char *kind, const char *setting, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", kind, setting);
	NEED(write_file(path, value) == 0);
}

void starve_prepare(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char path[128];

		configure(kinds[i], "verbose", "0");
		configure(kinds[i], "times", "-1");
		configure(kinds[i], "ignore-gfp-wait", "N");
		snprintf(path, sizeof(path), "%s/probability", kinds[i]);
		probability[i] = open(path, O_WRONLY | O_CLOEXEC);
		NEED(probability[i] >= 0);
	}
	configure(kinds[1], "min-order", "0");
}

/* Ending it may need memory; then it is repeated. */
void starve_set(int percent)
{
	char text[8];
	int len = snprintf(text, sizeof(text), "%d", percent);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		while (write(probability[i], text, len) < 0)
			NEED(errno == ENOMEM);
}
