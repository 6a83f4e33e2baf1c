/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_GENETLINK_H
#define HAWSER_TOOLS_GENETLINK_H

/*
 * The little of generic netlink that rds-info needs: dumps and events of hawser's family. (libmnl, which does the same for
 * others, cannot be linked statically.)
 */

#include "rds-address.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct genetlink {
	int fd;
	uint16_t family;
	uint32_t sequence;
};

/* Opens a socket and finds the family. Returns 0 or a negative errno; -ENOENT: the kernel has no such family. */
int genetlink_open(struct genetlink *link, const char *family);
void genetlink_close(struct genetlink *link);

/* Adds the socket to a group of the family. Returns 0 or a negative errno. */
int genetlink_join(struct genetlink *link, const char *family, const char *group);

/* Attributes of a message or within one. */
struct attributes {
	const void *first;
	size_t bytes;
};

/* The next attribute of @left, which is advanced; NULL at the end or when the rest is malformed. */
const struct nlattr *attribute_next(struct attributes *left);
/* The first attribute of @type, or NULL. */
const struct nlattr *attribute_find(struct attributes all, uint16_t type);
struct attributes attribute_nested(const struct nlattr *attribute);
const void *attribute_bytes(const struct nlattr *attribute, size_t *bytes);
/* The value of a number, of four or eight bytes; @missing if there is none. */
uint64_t attribute_number(struct attributes all, uint16_t type, uint64_t missing);

/* An address, of four bytes or sixteen; the unspecified one if there is none. */
void attribute_address(struct attributes all, uint16_t type, union rds_address *address);

typedef void (*genetlink_message)(void *context, uint8_t command, struct attributes attributes);

/* An attribute of a request. */
struct genetlink_choice {
	uint16_t attribute;
	uint32_t value;
};

/* Calls @each for each object that @command returns, by @choice if it is not NULL. Returns 0 or a negative errno. */
int genetlink_dump(struct genetlink *link, uint8_t command, const struct genetlink_choice *choice, genetlink_message each,
		   void *context);

/* Waits for events and calls @each for those that have come. Returns 0 or a negative errno; -ENOBUFS: some were lost. */
int genetlink_wait(struct genetlink *link, genetlink_message each, void *context);

#endif
