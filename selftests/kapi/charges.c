// SPDX-License-Identifier: GPL-2.0
/* Accounts of what is charged for programs: they are in pages, and so large that no machine of the tests has the memory. */

#include <linux/in.h>
#include <linux/net.h>
#include <linux/percpu.h>
#include <linux/string.h>

#include <kapi/linux.h>
#include <kapi/socket.h>

#include "../../kapi/linux/charge.h"
#include "kapi_test.h"

#define LARGE (3ul << 30)

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

int kapi_test_charges(void)
{
	struct accounts before, behind;
	struct kapi_payer *payer;
	struct socket *sock;
	int error = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, &sock);

	if (error)
		return error;
	error = kapi_sk_add_payer(sock->sk);
	if (!error) {
		payer = sock->sk->sk_user_data;
		before = accounts_of(payer);
		charge(payer, LARGE);
		kapi_sk_uncharge(kapi_sk_of(sock->sk), LARGE);
		behind = accounts_of(payer);
		error = memcmp(&before, &behind, sizeof(before)) != 0;
		kapi_sk_remove_payer(sock->sk);
	}
	sock_release(sock);
	return error;
}
