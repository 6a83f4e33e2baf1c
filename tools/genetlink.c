// SPDX-License-Identifier: GPL-2.0
#include "genetlink.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A message of a dump can be as long. */
#define BUFFER_BYTES 32768

struct request {
	struct nlmsghdr header;
	struct genlmsghdr generic;
	char attributes[64];
};

static int send_request(struct genetlink *link, uint16_t family, uint8_t command, uint16_t flags, struct request *request)
{
	request->header.nlmsg_len += NLMSG_LENGTH(GENL_HDRLEN);
	request->header.nlmsg_type = family;
	request->header.nlmsg_flags = NLM_F_REQUEST | flags;
	request->header.nlmsg_seq = ++link->sequence;
	request->generic.cmd = command;
	request->generic.version = 1;
	if (send(link->fd, request, request->header.nlmsg_len, 0) < 0)
		return -errno;
	return 0;
}

/* The only one of @request; there is room for it. */
static void add_attribute(struct request *request, uint16_t type, const void *value, size_t bytes)
{
	struct nlattr *attribute = (void *)request->attributes;

	attribute->nla_type = type;
	attribute->nla_len = (uint16_t)(NLA_HDRLEN + bytes);
	memcpy(request->attributes + NLA_HDRLEN, value, bytes);
	request->header.nlmsg_len = NLA_ALIGN(attribute->nla_len);
}

/* ---- attributes */

const struct nlattr *attribute_next(struct attributes *left)
{
	const struct nlattr *attribute = left->first;
	size_t taken;

	if (left->bytes < sizeof(*attribute) || attribute->nla_len < sizeof(*attribute) || attribute->nla_len > left->bytes)
		return NULL;
	taken = NLA_ALIGN(attribute->nla_len);
	left->bytes = taken < left->bytes ? left->bytes - taken : 0;
	left->first = (const char *)left->first + taken;
	return attribute;
}

const struct nlattr *attribute_find(struct attributes all, uint16_t type)
{
	const struct nlattr *attribute;

	while ((attribute = attribute_next(&all))) {
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
	}
	return NULL;
}

const void *attribute_bytes(const struct nlattr *attribute, size_t *bytes)
{
	*bytes = attribute->nla_len - NLA_HDRLEN;
	return (const char *)attribute + NLA_HDRLEN;
}

struct attributes attribute_nested(const struct nlattr *attribute)
{
	struct attributes nested;

	nested.first = attribute_bytes(attribute, &nested.bytes);
	return nested;
}

uint64_t attribute_number(struct attributes all, uint16_t type, uint64_t missing)
{
	const struct nlattr *attribute = attribute_find(all, type);
	uint64_t large;
	uint32_t small;
	const void *value;
	size_t bytes;

	if (!attribute)
		return missing;
	value = attribute_bytes(attribute, &bytes);
	if (bytes == sizeof(large)) {
		memcpy(&large, value, sizeof(large));
		return large;
	}
	if (bytes != sizeof(small))
		return missing;
	memcpy(&small, value, sizeof(small));
	return small;
}

void attribute_address(struct attributes all, uint16_t type, union rds_address *address)
{
	const struct nlattr *attribute = attribute_find(all, type);
	struct in6_addr ipv6 = IN6ADDR_ANY_INIT;
	const void *value = NULL;
	in_addr_t ipv4 = 0;
	size_t bytes = 0;

	if (attribute)
		value = attribute_bytes(attribute, &bytes);
	if (bytes == sizeof(ipv6)) {
		memcpy(&ipv6, value, sizeof(ipv6));
		rds_address_from_ipv6(address, ipv6, 0);
		return;
	}
	if (bytes == sizeof(ipv4))
		memcpy(&ipv4, value, sizeof(ipv4));
	rds_address_from_ipv4(address, ipv4, 0);
}

/* ---- messages */

/* One message: 1 to go on, 0 at the end of the answer, or a negative errno. */
static int take_message(const struct genetlink *link, const struct nlmsghdr *message, genetlink_message each, void *context)
{
	const struct genlmsghdr *generic = NLMSG_DATA(message);
	int error = 0;

	if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
		if (message->nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
			memcpy(&error, NLMSG_DATA(message), sizeof(error));
		return error;
	}
	if (message->nlmsg_len < NLMSG_LENGTH(GENL_HDRLEN) ||
	    (message->nlmsg_type != link->family && message->nlmsg_type != GENL_ID_CTRL))
		return 1;
	each(context, generic->cmd,
	     (struct attributes){ (const char *)generic + GENL_HDRLEN, message->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN) });
	return 1;
}

/* Takes what one recv() returns. As take_message(). */
static int take_some(struct genetlink *link, genetlink_message each, void *context)
{
	_Alignas(struct nlmsghdr) char buffer[BUFFER_BYTES];
	const struct nlmsghdr *message = (const void *)buffer;
	ssize_t received;
	int left;
	int result = 1;

	do
		received = recv(link->fd, buffer, sizeof(buffer), 0);
	while (received < 0 && errno == EINTR);
	if (received < 0)
		return -errno;
	for (left = (int)received; result > 0 && NLMSG_OK(message, left); message = NLMSG_NEXT(message, left))
		result = take_message(link, message, each, context);
	return result;
}

int genetlink_dump(struct genetlink *link, uint8_t command, const struct genetlink_choice *choice, genetlink_message each,
		   void *context)
{
	struct request request = { 0 };
	int result;

	if (choice)
		add_attribute(&request, choice->attribute, &choice->value, sizeof(choice->value));
	result = send_request(link, link->family, command, NLM_F_DUMP, &request);
	if (result)
		return result;
	do
		result = take_some(link, each, context);
	while (result > 0);
	return result;
}

int genetlink_wait(struct genetlink *link, genetlink_message each, void *context)
{
	int result = take_some(link, each, context);

	return result < 0 ? result : 0;
}

/* ---- the family */

struct lookup {
	uint16_t family;
	const char *group;
	uint32_t group_id;
};

static uint16_t short_of(const struct nlattr *attribute)
{
	size_t bytes;
	const void *value = attribute_bytes(attribute, &bytes);
	uint16_t number = 0;

	if (bytes == sizeof(number))
		memcpy(&number, value, sizeof(number));
	return number;
}

static bool is_text(const struct nlattr *attribute, const char *text)
{
	size_t bytes;
	const void *value = attribute_bytes(attribute, &bytes);

	return bytes == strlen(text) + 1 && !memcmp(value, text, bytes);
}

static void find_group(struct lookup *lookup, struct attributes groups)
{
	const struct nlattr *one, *name;

	while ((one = attribute_next(&groups))) {
		name = attribute_find(attribute_nested(one), CTRL_ATTR_MCAST_GRP_NAME);
		if (name && is_text(name, lookup->group))
			lookup->group_id = (uint32_t)attribute_number(attribute_nested(one), CTRL_ATTR_MCAST_GRP_ID, 0);
	}
}

static void note_family(void *context, uint8_t command, struct attributes attributes)
{
	const struct nlattr *id = attribute_find(attributes, CTRL_ATTR_FAMILY_ID);
	const struct nlattr *groups = attribute_find(attributes, CTRL_ATTR_MCAST_GROUPS);
	struct lookup *lookup = context;

	(void)command;
	if (id)
		lookup->family = short_of(id);
	if (groups && lookup->group)
		find_group(lookup, attribute_nested(groups));
}

static int look_up(struct genetlink *link, const char *family, struct lookup *lookup)
{
	struct request request = { 0 };
	size_t bytes = strlen(family) + 1;
	int result;

	if (NLA_HDRLEN + bytes > sizeof(request.attributes))
		return -ENOENT;
	add_attribute(&request, CTRL_ATTR_FAMILY_NAME, family, bytes);
	result = send_request(link, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_ACK, &request);
	while (!result && (result = take_some(link, note_family, lookup)) > 0)
		result = 0;
	return result;
}

int genetlink_open(struct genetlink *link, const char *family)
{
	struct sockaddr_nl local = { .nl_family = AF_NETLINK };
	struct lookup lookup = { 0 };
	int error;

	*link = (struct genetlink){ .fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC) };
	if (link->fd < 0)
		return -errno;
	error = bind(link->fd, (const void *)&local, sizeof(local)) ? -errno : look_up(link, family, &lookup);
	if (error) {
		close(link->fd);
		return error;
	}
	link->family = lookup.family;
	return 0;
}

int genetlink_join(struct genetlink *link, const char *family, const char *group)
{
	struct lookup lookup = { .group = group };
	int error = look_up(link, family, &lookup);

	if (error)
		return error;
	if (!lookup.group_id)
		return -ENOENT;
	if (setsockopt(link->fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &lookup.group_id, sizeof(lookup.group_id)))
		return -errno;
	return 0;
}

void genetlink_close(struct genetlink *link)
{
	close(link->fd);
}
