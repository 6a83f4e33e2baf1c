/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much of what all share one may have: the rule of every host for the memory of what is received and not read, and for
 * tables that users fill.
 *
 * It is never used up, for each may have a part of what is left. A user whose sockets are full holds a half, and of the other
 * half the next user a half. Before that, above a third, his senders are told to wait. What is on its way then still finds
 * room, in many sockets less than in few: a message without room stops a path that others use too.
 */
#ifndef KAPI_SHARE_H
#define KAPI_SHARE_H

#include <kapi/errno.h>
#include <kapi/types.h>

KAPI_BEGIN

/* What a cgroup's limit does not refuse to a socket, in bytes: so much may be on its way when its senders are told to wait. */
#define KAPI_GUARANTEED (256 * 1024)

/*
 * [any] May a socket that holds so much, of a user who holds of_user, have more of what all share, of which left is free? Any
 * unit. 0: yes; 1: yes, but senders should wait; -ENOMEM: no. What the socket holds counts twice, so one that has nothing yet
 * still gets something when others are full.
 */
static inline int kapi_share(kapi_u64 held, kapi_u64 of_user, kapi_u64 left, kapi_u64 more) KAPI_NOEXCEPT
{
	kapi_u64 wanted = held + of_user + more;

	return wanted > left ? -KAPI_ENOMEM : wanted > left / 2;
}

/*
 * [any] Whose share is it? Begins with a program's real user and asks once for each user namespace that it is in, from the
 * innermost to the outermost, with who made that one. One whom the administrator (0) has not made gives its maker any number of
 * names, so all of them are his. What the administrator made, and mapped, changes nobody: each real user has a share of his own.
 */
static inline kapi_u32 kapi_answers_for(kapi_u32 user, kapi_u32 maker) KAPI_NOEXCEPT
{
	return maker ? maker : user;
}

/* [any] Of whom the socket is: the user for whom it was made, as a number below KAPI_USERS. Two users may have the same. */
#define KAPI_USERS 1024
kapi_u32 kapi_sk_user(struct kapi_sk *sk) KAPI_NOEXCEPT;

KAPI_END
#endif
