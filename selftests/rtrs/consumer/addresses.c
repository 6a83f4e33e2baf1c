// SPDX-License-Identifier: GPL-2.0
#include <linux/inet.h>
#include <linux/string.h>
#include <net/ipv6.h>

#include "consumer.h"

struct text {
	const char *text;
	int error;
	const char *written; /* by rtrs_addr_to_str(); NULL: the same */
};

static const struct text texts[] = {
	{ "ip:192.0.2.1@ip:192.0.2.2", 0, NULL },
	{ "ip:192.0.2.1,ip:192.0.2.2", 0, "ip:192.0.2.1@ip:192.0.2.2" },
	{ "ip:2001:db8::1@ip:2001:db8::2", 0, NULL },
	{ "gid:fe80:0000:0000:0000:5054:00ff:fe00:0001@gid:fe80:0000:0000:0000:5054:00ff:fe00:0002", 0, NULL },
	{ "ip:192.0.2.300", -EINVAL, NULL },
	{ "ip:", -EINVAL, NULL },
	{ "", -EPROTONOSUPPORT, NULL },
	{ "192.0.2.1", -EPROTONOSUPPORT, NULL },
	{ "mac:192.0.2.1", -EPROTONOSUPPORT, NULL },
};

static bool one_text(const struct text *text)
{
	struct sockaddr_storage ends[2] = {};
	struct rtrs_addr path = { .src = &ends[0], .dst = &ends[1] };
	const char *wanted = text->written ?: text->text;
	char written[256];

	if (rtrs_addr_to_sockaddr(text->text, strlen(text->text), CONSUMER_PORT, &path) != text->error)
		return false;
	return text->error || (rtrs_addr_to_str(&path, written, sizeof(written)) == strlen(wanted) && !strcmp(written, wanted));
}

static bool has_no_source(void)
{
	static const char text[] = "ip:192.0.2.2";
	struct sockaddr_storage ends[2] = {};
	struct rtrs_addr path = { .src = &ends[0], .dst = &ends[1] };
	char written[64];

	CHECK(!rtrs_addr_to_sockaddr(text, sizeof(text) - 1, CONSUMER_PORT, &path));
	CHECK(!path.src);
	CHECK(((struct sockaddr_in *)path.dst)->sin_port == htons(CONSUMER_PORT));
	CHECK(sockaddr_to_str((struct sockaddr *)path.dst, written, sizeof(written)) == strlen(text));
	CHECK(!strcmp(written, text));
	return true;
}

bool consumer_addresses(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!one_text(&texts[i])) {
			pr_err("rtrs_test: the address \"%s\"\n", texts[i].text);
			return false;
		}
	}
	return has_no_source();
}
