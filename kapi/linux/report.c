// SPDX-License-Identifier: GPL-2.0
/*
 * Reports over generic netlink. The family is in this module, and its tables are in the modules of the protocols: a dump holds
 * the module whose table it reads.
 */

#include <linux/export.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include <net/genetlink.h>
#include <net/sock.h>

#include <kapi/host.h>
#include <kapi/linux.h>
#include <kapi/report.h>
#include <uapi/hawser_netlink.h>

#include "report.h"

#define COMMANDS 9
#define DEPTH 2

struct kapi_report {
	struct sk_buff *skb;
	void *header; /* of an event */
	struct net *net;
	struct nlattr *nests[DEPTH];
	unsigned int depth;
	bool full; /* something did not fit */
};

/* By commands. Under entries_mutex; a dump goes on to use an entry, whose owner it holds. */
static struct entry {
	const struct kapi_report_table *table; /* NULL: the module is not loaded */
	struct kapi_module *owner;
} entries[COMMANDS];
static DEFINE_MUTEX(entries_mutex);

/* What a dump keeps in netlink's callback. */
struct dump {
	const struct entry *entry;
	struct kapi_report_place place;
};

static struct genl_family family;

/* ---- a report */

static void add(struct kapi_report *report, u16 attribute, const void *bytes, size_t length)
{
	if (report->full || nla_put(report->skb, attribute, (int)length, bytes))
		report->full = true;
}

void kapi_report_number(struct kapi_report *report, u16 attribute, u64 value)
{
	u32 small = (u32)value;

	if (small == value)
		add(report, attribute, &small, sizeof(small));
	else
		add(report, attribute, &value, sizeof(value));
}
EXPORT_SYMBOL_GPL(kapi_report_number);

void kapi_report_text(struct kapi_report *report, u16 attribute, const char *text)
{
	add(report, attribute, text, strlen(text) + 1);
}
EXPORT_SYMBOL_GPL(kapi_report_text);

void kapi_report_bytes(struct kapi_report *report, u16 attribute, const void *bytes, size_t length)
{
	add(report, attribute, bytes, length);
}
EXPORT_SYMBOL_GPL(kapi_report_bytes);

void kapi_report_begin(struct kapi_report *report, u16 attribute)
{
	struct nlattr *nest = NULL;

	if (WARN_ON_ONCE(report->depth == DEPTH))
		report->full = true;
	if (!report->full)
		nest = nla_nest_start(report->skb, attribute);
	if (!nest) {
		report->full = true;
		return;
	}
	report->nests[report->depth++] = nest;
}
EXPORT_SYMBOL_GPL(kapi_report_begin);

void kapi_report_end(struct kapi_report *report)
{
	if (!report->full)
		nla_nest_end(report->skb, report->nests[--report->depth]);
}
EXPORT_SYMBOL_GPL(kapi_report_end);

size_t kapi_report_room(const struct kapi_report *report)
{
	return report->full ? 0 : skb_tailroom(report->skb);
}
EXPORT_SYMBOL_GPL(kapi_report_room);

/* ---- dumps */

static struct dump *dump_of(struct netlink_callback *callback)
{
	BUILD_BUG_ON(sizeof(struct dump) > sizeof(callback->ctx));
	return (struct dump *)callback->ctx;
}

/* By the policy of its command it has four bytes. */
static u32 choice_of(const struct nlmsghdr *request, u16 attribute)
{
	const struct nlattr *found = NULL;

	if (attribute)
		found = nlmsg_find_attr(request, GENL_HDRLEN, attribute);
	return found ? nla_get_u32(found) : 0;
}

static int dump_start(struct netlink_callback *callback)
{
	const struct genlmsghdr *header = nlmsg_data(callback->nlh);
	const struct entry *entry = &entries[header->cmd]; /* commands[] has no other */
	int error = 0;

	mutex_lock(&entries_mutex);
	if (!entry->table || !kapi_module_get(entry->owner))
		error = -EOPNOTSUPP;
	else
		dump_of(callback)->place.choice = choice_of(callback->nlh, entry->table->choice);
	mutex_unlock(&entries_mutex);
	dump_of(callback)->entry = entry;
	return error;
}

/* 1: an object was added to skb; 0: there is none; -EMSGSIZE: it has no room for the next; another errno: the table's. */
static int dump_next(struct sk_buff *skb, struct netlink_callback *callback)
{
	struct dump *dump = dump_of(callback);
	struct kapi_report_place place = dump->place;
	struct kapi_report report = { .skb = skb };
	void *header;
	int result;

	header = genlmsg_put(skb, NETLINK_CB(callback->skb).portid, callback->nlh->nlmsg_seq, &family, NLM_F_MULTI,
			     dump->entry->table->command);
	if (!header)
		return -EMSGSIZE;
	result = dump->entry->table->next(kapi_net_of(sock_net(skb->sk)), &place, &report);
	if (result > 0 && report.full)
		result = -EMSGSIZE;
	if (result <= 0) {
		genlmsg_cancel(skb, header);
		return result;
	}
	genlmsg_end(skb, header);
	dump->place = place;
	return 1;
}

static int dump_some(struct sk_buff *skb, struct netlink_callback *callback)
{
	int result;

	do
		result = dump_next(skb, callback);
	while (result > 0);
	return skb->len ? (int)skb->len : result;
}

/* Only of a dump that has started. */
static int dump_done(struct netlink_callback *callback)
{
	kapi_module_put(dump_of(callback)->entry->owner);
	return 0;
}

/* ---- events */

struct kapi_report *kapi_event_begin(struct kapi_net *host, u8 command)
{
	struct net *net = kapi_net_to_net(host);
	struct kapi_report *report;

	/* The socket filters of all listeners run in the caller. */
	if (net->user_ns != &init_user_ns || !genl_has_listeners(&family, net, 0))
		return NULL;
	report = kzalloc(sizeof(*report), GFP_ATOMIC | __GFP_NOWARN);
	if (!report)
		goto lost;
	report->net = net;
	report->skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_ATOMIC | __GFP_NOWARN);
	if (!report->skb)
		goto lost;
	report->header = genlmsg_put(report->skb, 0, 0, &family, 0, command);
	return report;

lost:
	kfree(report);
	genl_set_err(&family, net, 0, 0, -ENOBUFS);
	return NULL;
}
EXPORT_SYMBOL_GPL(kapi_event_begin);

void kapi_event_send(struct kapi_report *report)
{
	if (WARN_ON_ONCE(report->full)) {
		nlmsg_free(report->skb);
	} else {
		genlmsg_end(report->skb, report->header);
		genlmsg_multicast_netns(&family, report->net, report->skb, 0, 0, GFP_ATOMIC | __GFP_NOWARN);
	}
	kfree(report);
}
EXPORT_SYMBOL_GPL(kapi_event_send);

/* ---- the family */

#define TABLE(command_number, ...)                                                                                     \
	{                                                                                                              \
		.cmd = command_number, .start = dump_start, .dumpit = dump_some, .done = dump_done, __VA_ARGS__        \
	}

static const struct nla_policy by_queue[] = { [HAWSER_RDS_QUEUE_KIND] = { .type = NLA_U32 } };

static const struct genl_ops commands[] = {
	TABLE(HAWSER_CMD_RDS_CONNECTION_GET),
	TABLE(HAWSER_CMD_RDS_SOCKET_GET),
	TABLE(HAWSER_CMD_KCM_CONNECTION_GET),
	TABLE(HAWSER_CMD_RDS_COUNTER_GET),
	TABLE(HAWSER_CMD_KCM_MUX_GET),
	TABLE(HAWSER_CMD_RDS_QUEUE_GET, .policy = by_queue, .maxattr = ARRAY_SIZE(by_queue) - 1),
};

static const struct genl_multicast_group groups[] = {
	{ .name = HAWSER_MCGRP_EVENTS, .flags = GENL_MCAST_CAP_NET_ADMIN },
};

static struct genl_family family = {
	.name = HAWSER_FAMILY_NAME,
	.version = HAWSER_FAMILY_VERSION,
	.module = THIS_MODULE,
	.netnsok = true,
	.parallel_ops = true,
	.ops = commands,
	.n_ops = ARRAY_SIZE(commands),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

void kapi_report_register(struct kapi_module *owner, const struct kapi_report_table *tables, unsigned int count)
{
	unsigned int i;

	mutex_lock(&entries_mutex);
	for (i = 0; i < count; i++)
		entries[tables[i].command] = (struct entry){ &tables[i], owner };
	mutex_unlock(&entries_mutex);
}
EXPORT_SYMBOL_GPL(kapi_report_register);

void kapi_report_unregister(const struct kapi_report_table *tables, unsigned int count)
{
	unsigned int i;

	mutex_lock(&entries_mutex);
	for (i = 0; i < count; i++)
		entries[tables[i].command] = (struct entry){};
	mutex_unlock(&entries_mutex);
}
EXPORT_SYMBOL_GPL(kapi_report_unregister);

int kapi_reports_init(void)
{
	return genl_register_family(&family);
}

void kapi_reports_exit(void)
{
	genl_unregister_family(&family);
}
