// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>

#include "consumer.h"

struct test {
	const char *name;
	bool (*run)(void);
};

static const struct test tests[] = {
	{ "addresses are read and written", consumer_addresses },
	{ "without a server no session is opened", consumer_without_server },
	{ "a session's name is its own", consumer_names },
	{ "the server's user may refuse a session", consumer_refused_session },
	{ "data of all sizes goes and comes back", consumer_data },
	{ "messages of all sizes arrive", consumer_messages },
	{ "what is more than the session's limits is refused", consumer_limits },
	{ "the server's errors arrive, once each", consumer_errors },
	{ "there are as many permits as the server takes requests", consumer_permits },
	{ "requests are made where nobody may sleep", consumer_atomic },
	{ "a server that goes and comes is found again", consumer_server_restart },
	{ "a session with requests is closed", consumer_close_with_requests },
};

static int __init rtrs_test_init(void)
{
	int failed = 0, i;

	for (i = 0; i < CONSUMER_TEXT; i++)
		consumer_text[i] = i * 7 + 1;
	pr_info("rtrs_test: 1..%zu\n", ARRAY_SIZE(tests));
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		bool good = tests[i].run();

		pr_info("rtrs_test: %sok %d %s\n", good ? "" : "not ", i + 1, tests[i].name);
		failed += !good;
	}
	return failed ? -EIO : 0;
}

static void __exit rtrs_test_exit(void)
{
}

module_init(rtrs_test_init);
module_exit(rtrs_test_exit);

MODULE_DESCRIPTION("hawser: a user of RTRS, which tests it");
MODULE_AUTHOR("The hawser project");
MODULE_LICENSE("GPL");
