/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kapi: what hawser's core requires of its host. Readable by C and by C++.
 *
 * Two implementations exist: kapi/linux (C, hawser.ko) and kapi/sim (the deterministic simulator).
 * Every call carries one of these tags in its comment; both implementations check it:
 *
 *   [any]    callable in any context, also with core locks held and from a stream callback
 *   [sleep]  may sleep: no lock held, not from a stream callback
 *   [task]   sleeps and belongs to a system call: it may touch the memory of the calling program
 *   [init]   module or namespace set-up and tear-down, may sleep
 *
 * Errors are negative errno values (kapi/errno.h).
 */
#ifndef KAPI_TYPES_H
#define KAPI_TYPES_H

#ifdef __cplusplus
#define KAPI_BEGIN extern "C" {
#define KAPI_END }
#define KAPI_NOEXCEPT noexcept
#else
#define KAPI_BEGIN
#define KAPI_END
#define KAPI_NOEXCEPT
#endif

#ifdef __KERNEL__
#include <kapi_sizes.h> /* generated from kapi/linux/sizes.c for the kernel at hand */
#else
#include <kapi_sizes.h> /* kapi/sim/include */
#endif

#if defined(__KERNEL__) && !defined(__cplusplus)
#include <linux/types.h>
typedef __u8 kapi_u8;
typedef __u16 kapi_u16;
typedef __u32 kapi_u32;
typedef __u64 kapi_u64;
typedef __s32 kapi_s32;
typedef __s64 kapi_s64;
typedef size_t kapi_size;
#else
typedef unsigned char kapi_u8;
typedef unsigned short kapi_u16;
typedef unsigned int kapi_u32;
typedef unsigned long long kapi_u64;
typedef int kapi_s32;
typedef long long kapi_s64;
typedef __SIZE_TYPE__ kapi_size;
#endif

/* An address with its port. IPv4 is held v4-mapped (::ffff:a.b.c.d); ip is in network order, the rest in host order. */
struct kapi_addr {
	kapi_u8 ip[16];
	kapi_u32 scope; /* interface index of a link-local address, else 0 */
	kapi_u16 port;
	kapi_u16 pad;
};

struct kapi_net;    /* a network namespace */
struct kapi_sk;     /* the kernel's socket behind a core socket object */
struct kapi_msg;    /* the message argument of sendmsg or recvmsg: user memory and control data */
struct kapi_module; /* a loaded module */

#endif
