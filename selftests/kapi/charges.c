// SPDX-License-Identifier: GPL-2.0
/* Accounts of what is charged for programs: in pages, and some so large that no machine of the tests has the memory. */

#include <linux/in.h>
#include <linux/net.h>
#include <linux/percpu.h>
#include <linux/string.h>

#include <kapi/linux.h>
#include <kapi/socket.h>

#include "../../kapi/linux/charge.h"
#include "kapi_test.h"

#define LARGE (3ul << 30)
#define SMALL (1l << 20)

struct accounts {
	long payer, user, all;
};

static struct accounts accounts_of(const struct kapi_payer *payer)
{
	const struct proto *protocol = payer->sk.sk_prot;
	struct accounts accounts = {
		.payer = payer->pages,
		.user = atomic_long_read(payer->user),
		.all = atomic_long_read(protocol->memory_allocated),
	};
	int cpu;

	for_each_possible_cpu(cpu)
		accounts.all += *per_cpu_ptr(protocol->per_cpu_fw_alloc, cpu);
	return accounts;
}

/* As three calls for a third each leave them. */
static void charge(struct kapi_payer *payer, size_t size)
{
	long pages = size >> PAGE_SHIFT;

	payer->pages += pages;
	atomic_long_add(pages, payer->user);
	atomic_long_add(pages, payer->sk.sk_prot->memory_allocated);
}

static int sums_of_several_calls(struct socket *sock)
{
	struct accounts before, behind;
	struct kapi_payer *payer;
	int error = kapi_sk_add_payer(sock->sk);

	if (error)
		return error;
	payer = sock->sk->sk_user_data;
	before = accounts_of(payer);
	charge(payer, LARGE);
	kapi_sk_uncharge(kapi_sk_of(sock->sk), LARGE);
	behind = accounts_of(payer);
	kapi_sk_remove_payer(sock->sk);
	return memcmp(&before, &behind, sizeof(before)) != 0;
}

/* An administrator can keep all sockets that are made from then on out of their protocol's sum; 7.2 has that. */
static void leave_out_of_sums(bool on)
{
#ifdef sk_bypass_prot_mem
	WRITE_ONCE(init_net.core.sysctl_bypass_prot_mem, on);
#endif
}

/* Else neither the limit of the machine nor the share of a user has anything to go by. */
static int is_in_the_sum(struct socket *sock)
{
	struct kapi_sk *sk = kapi_sk_of(sock->sk);
	struct accounts before, behind;
	int error;

	leave_out_of_sums(true);
	error = kapi_sk_add_payer(sock->sk);
	leave_out_of_sums(false);
	if (error)
		return error;
	before = accounts_of(sock->sk->sk_user_data);
	error = kapi_sk_charge(sk, SMALL);
	behind = accounts_of(sock->sk->sk_user_data);
	if (error >= 0) {
		kapi_sk_uncharge(sk, SMALL);
		error = behind.user - before.user < SMALL >> PAGE_SHIFT || behind.all - before.all != behind.user - before.user;
	}
	kapi_sk_remove_payer(sock->sk);
	return error;
}

int kapi_test_charges(void)
{
	struct socket *sock;
	int error = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, &sock);

	if (error)
		return error;
	error = sums_of_several_calls(sock);
	if (!error)
		error = is_in_the_sum(sock);
	sock_release(sock);
	return error;
}
