/* SPDX-License-Identifier: GPL-2.0 */
/* Time, chance, the log, modules, namespaces. */
#ifndef KAPI_HOST_H
#define KAPI_HOST_H

#include <kapi/types.h>

KAPI_BEGIN

kapi_u64 kapi_now_ns(void) KAPI_NOEXCEPT;       /* [any] monotonic */
kapi_u64 kapi_real_ns(void) KAPI_NOEXCEPT;      /* [any] wall clock, since 1970 */
kapi_u64 kapi_local_clock_ns(void) KAPI_NOEXCEPT; /* [any] cheap clock for latency traces */
kapi_u32 kapi_cpu(void) KAPI_NOEXCEPT;          /* [any] the CPU we run on, which may change at once */
kapi_u32 kapi_cpus(void) KAPI_NOEXCEPT;         /* [any] one more than the highest number of a CPU that there may be */
kapi_u32 kapi_random_u32(void) KAPI_NOEXCEPT;   /* [any] unpredictable */

/* [sleep] Others run that wait for this CPU: where a loop without a lock may be long. */
void kapi_resched(void) KAPI_NOEXCEPT;
/* So long hawser's callbacks may keep all tasks from a processor. */
#define KAPI_TURN_NS 4000000
/*
 * From a callback of a stream or a completion queue. Have callbacks had this processor for KAPI_TURN_NS longer than others had it
 * since? Then a work is to do what can wait. Always 0 in a task.
 */
int kapi_turn_is_over(void) KAPI_NOEXCEPT;

enum kapi_log_level { KAPI_LOG_ERR = 3, KAPI_LOG_WARN = 4, KAPI_LOG_NOTICE = 5, KAPI_LOG_INFO = 6, KAPI_LOG_DEBUG = 7 };
/* [any] One line, rate-limited; printf-like with the host's %d %u %s %llu %lld %x and no pointer formats. */
void kapi_log(enum kapi_log_level level, const char *format, ...) KAPI_NOEXCEPT __attribute__((format(printf, 2, 3)));
/* [any] Logs and, in a debug build or the simulator, stops: an invariant of hawser is broken. */
void kapi_bug(const char *expression, const char *file, int line) KAPI_NOEXCEPT;

/*
 * [task] The user for whom the calling program runs: its real user, by its number in the first user namespace. In user namespaces
 * that the administrator has not made: the user who made the outermost of those, who assigns the users in it
 * (kapi_answers_for()).
 */
kapi_u64 kapi_user(void) KAPI_NOEXCEPT;

/*
 * [sleep] Is this a call of a program? 0: a thread of the kernel's, which may have to do the same for all programs, and must not
 * wait for a program.
 */
int kapi_in_program(void) KAPI_NOEXCEPT;

/* [any] Takes a reference to a module that may be unloading: 0 when it is (then it must not be called). */
int kapi_module_get(struct kapi_module *module) KAPI_NOEXCEPT;
void kapi_module_put(struct kapi_module *module) KAPI_NOEXCEPT; /* [any] */

/*
 * [any] Where a module keeps the root of its state: a pointer that is NULL when the module is loaded. The simulator has
 * one set for each node, so core has no other mutable static.
 */
enum kapi_slot {
	KAPI_SLOT_RDS,
	KAPI_SLOT_RDS_TCP,
	KAPI_SLOT_RDS_RDMA,
	KAPI_SLOT_KCM,
	KAPI_SLOT_RTRS,
	KAPI_SLOT_RTRS_SRV,
	KAPI_SLOTS
};
void **kapi_module_slot(enum kapi_slot slot) KAPI_NOEXCEPT;

/* [any] Is addr an address of this host in net? scope, when not 0, names the interface that must hold it. */
int kapi_net_is_local(struct kapi_net *net, const struct kapi_addr *addr) KAPI_NOEXCEPT;
/* [any] Changes whenever an address or interface of net was added, removed or moved: caches compare it. */
kapi_u32 kapi_net_addr_generation(struct kapi_net *net) KAPI_NOEXCEPT;
/* [any] The lowest and highest automatic TCP port of net. */
void kapi_net_port_range(struct kapi_net *net, kapi_u16 *low, kapi_u16 *high) KAPI_NOEXCEPT;
/* [any] Did the administrator reserve a TCP port of that range (net.ipv4.ip_local_reserved_ports)? */
int kapi_net_port_is_reserved(struct kapi_net *net, kapi_u16 port) KAPI_NOEXCEPT;
/* [any] net stays until as many puts. Only while something else holds it: a socket of the caller's, say. */
void kapi_net_get(struct kapi_net *net) KAPI_NOEXCEPT;
void kapi_net_put(struct kapi_net *net) KAPI_NOEXCEPT;
/* [any] Is this the host's first namespace? */
int kapi_net_is_initial(struct kapi_net *net) KAPI_NOEXCEPT;
/*
 * [any] The user to whom net is charged: 0, the administrator, if it belongs to the first user namespace; else user 0 of its
 * user namespace, by the number in the first one. In user namespaces that the administrator has not made: as kapi_user().
 */
kapi_u32 kapi_net_owner(struct kapi_net *net) KAPI_NOEXCEPT;

KAPI_END
#endif
