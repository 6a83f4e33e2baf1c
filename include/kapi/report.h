/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What programs read of a module's objects over generic netlink (family "hawser"), and are notified of.
 * include/uapi/hawser_netlink.h has the numbers of commands and attributes, Documentation/netlink/specs/hawser.yaml what they
 * mean.
 *
 * A report is one message: the attributes of one object. What does not fit is noted in it, and the calls that add to it do not
 * fail.
 */
#ifndef KAPI_REPORT_H
#define KAPI_REPORT_H

#include <kapi/memory.h>
#include <kapi/types.h>

KAPI_BEGIN

struct kapi_report;

/* [any] Adds an attribute. A number takes four bytes or eight; text ends with its zero. */
void kapi_report_number(struct kapi_report *report, kapi_u16 attribute, kapi_u64 value) KAPI_NOEXCEPT;
void kapi_report_text(struct kapi_report *report, kapi_u16 attribute, const char *text) KAPI_NOEXCEPT;
void kapi_report_bytes(struct kapi_report *report, kapi_u16 attribute, const void *bytes, kapi_size length) KAPI_NOEXCEPT;
/* [any] An address: its four bytes if it is v4-mapped. */
static inline void kapi_report_ip(struct kapi_report *report, kapi_u16 attribute, const kapi_u8 ip[16]) KAPI_NOEXCEPT
{
	static const kapi_u8 mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (kapi_compare(ip, mapped, sizeof(mapped)) == 0)
		kapi_report_bytes(report, attribute, ip + sizeof(mapped), 4);
	else
		kapi_report_bytes(report, attribute, ip, 16);
}
/* [any] What is added until the end is inside of this attribute. */
void kapi_report_begin(struct kapi_report *report, kapi_u16 attribute) KAPI_NOEXCEPT;
void kapi_report_end(struct kapi_report *report) KAPI_NOEXCEPT;
/* [any] How many bytes there is room for. Each attribute takes four bytes more than its contents, and is padded to four. */
kapi_size kapi_report_room(const struct kapi_report *report) KAPI_NOEXCEPT;

/* Where a dump is among the objects: zeroes at its beginning, and the table's own otherwise. */
struct kapi_report_place {
	kapi_u32 choice; /* constant: the number that the request has, if the table has a choice, or 0 */
	kapi_u32 step;
	kapi_u64 words[4];
};

/* The objects of one kind of a module. */
struct kapi_report_table {
	kapi_u8 command; /* that programs ask with, enum hawser_command */
	kapi_u16 choice; /* attribute of a request, four bytes, that chooses among the objects; 0: there is none */
	/*
	 * [sleep] Adds the object behind place to report, and moves place behind it: 1. Or 0: there are no more; or an errno,
	 * which ends the dump. Objects that come or go during a dump may be missed. Not called while net begins or ends, or
	 * after kapi_report_unregister().
	 */
	int (*next)(struct kapi_net *net, struct kapi_report_place *place, struct kapi_report *report);
};

/*
 * [init] Programs can read the tables of owner from now on, and hold it while they do: the last step of loading. There is no
 * other table with one of their commands.
 */
void kapi_report_register(struct kapi_module *owner, const struct kapi_report_table *tables, unsigned int count) KAPI_NOEXCEPT;
/* [init] When nothing holds owner: it is being unloaded. */
void kapi_report_unregister(const struct kapi_report_table *tables, unsigned int count) KAPI_NOEXCEPT;

/*
 * [any], but not under a lock: the filters of all listeners' sockets run in the caller. Something happened to an object of net: a
 * report for the programs that listen, which are those of administrators. NULL: none does, or there is no memory, which they
 * see as a lost event (ENOBUFS). The report belongs to the caller, until kapi_event_send().
 */
struct kapi_report *kapi_event_begin(struct kapi_net *net, kapi_u8 command) KAPI_NOEXCEPT;
void kapi_event_send(struct kapi_report *report) KAPI_NOEXCEPT; /* [any] */

KAPI_END
#endif
