/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much of a shared resource one user may have: the rule of every host for the memory of received and unread data, and for
 * tables that users fill.
 *
 * It is never used up, because each may have a part of what is left. A user whose sockets are full holds one half, the next
 * user one half of the rest, and so on. Before that, above one third, the senders to that user have to wait. Messages on their
 * way at that time still have room, with many sockets less than with few: a message without room stops a path that others use.
 */
#ifndef KAPI_SHARE_H
#define KAPI_SHARE_H

#include <kapi/errno.h>
#include <kapi/types.h>

KAPI_BEGIN

/* What a cgroup's limit does not refuse to a socket, in bytes: so much may be on its way when its senders begin to wait. */
#define KAPI_GUARANTEED (256 * 1024)

/*
 * [any] May a socket that holds held, of a user who holds of_user, take more of a shared resource of which left is free? Any
 * unit. 0: yes; 1: yes, but senders should wait; -ENOMEM: no. What the socket holds counts twice, so one that has nothing yet
 * still gets something when others are full.
 */
static inline int kapi_share(kapi_u64 held, kapi_u64 of_user, kapi_u64 left, kapi_u64 more) KAPI_NOEXCEPT
{
	kapi_u64 wanted = held + of_user + more;

	return wanted > left ? -KAPI_ENOMEM : wanted > left / 2;
}

/*
 * [any] The user whose share is used: begins with a program's real user, and is called once for each user namespace that the
 * program is in, from the innermost to the outermost, with the user who made that namespace. One that the administrator (0) has
 * not made gives its maker any number of users, so all of them count as the maker. One of the administrator changes nothing:
 * each real user has a share.
 */
static inline kapi_u32 kapi_answers_for(kapi_u32 user, kapi_u32 maker) KAPI_NOEXCEPT
{
	return maker ? maker : user;
}

/* [any] The user for whom the socket was made, as a number below KAPI_USERS. Two users may have the same. */
#define KAPI_USERS 1024
kapi_u32 kapi_sk_user(struct kapi_sk *sk) KAPI_NOEXCEPT;
/* [any] The same number of a user, as kapi_net_owner() has it. */
kapi_u32 kapi_user_number(kapi_u32 user) KAPI_NOEXCEPT;

KAPI_END
#endif
