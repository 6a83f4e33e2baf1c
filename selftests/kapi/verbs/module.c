// SPDX-License-Identifier: GPL-2.0
/* kapi_verbs_test.ko: exercises kapi's verbs from C++ in a kernel, between two devices of this machine. As kapi_test.ko. */

#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sched.h>
#include <linux/cred.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "verbs_test.h"

static char *only = "";
module_param(only, charp, 0);
MODULE_PARM_DESC(only, "run the tests whose names begin with this; those that need the scene's help run only when named");

static int other_ns;
module_param(other_ns, int, 0);
MODULE_PARM_DESC(other_ns, "a process in another network namespace");

struct kapi_net *verbs_test_other_net(void)
{
	struct net *net = get_net_ns_by_pid(other_ns);

	return IS_ERR(net) ? NULL : kapi_net_of(net);
}

void verbs_test_net_put(struct kapi_net *net)
{
	put_net(kapi_net_to_net(net));
}

kapi_u32 verbs_test_ifindex(const char *name)
{
	struct net_device *dev = dev_get_by_name(&init_net, name);
	kapi_u32 ifindex = dev ? dev->ifindex : 0;

	dev_put(dev);
	return ifindex;
}

void verbs_test_plan(unsigned long tests)
{
	pr_info("kapi_test: 1..%lu\n", tests);
}

void verbs_test_report(int ok, int number, const char *name)
{
	pr_info("kapi_test: %sok %d %s\n", ok ? "" : "not ", number, name);
}

int verbs_test_wanted(const char *name)
{
	if (*only)
		return !strncmp(name, only, strlen(only));
	return strncmp(name, "removed", strlen("removed")) && strcmp(name, "exclusive");
}

kapi_u64 verbs_test_mmap(kapi_size size, int writable)
{
	unsigned long at = vm_mmap(NULL, 0, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_PRIVATE | MAP_ANONYMOUS, 0);

	return IS_ERR_VALUE(at) ? 0 : at;
}

void verbs_test_munmap(kapi_u64 at, kapi_size size)
{
	vm_munmap(at, size);
}

int verbs_test_poke(kapi_u64 at, const void *bytes, kapi_size size)
{
	return copy_to_user((void __user *)(unsigned long)at, bytes, size) ? -EFAULT : 0;
}

int verbs_test_peek(kapi_u64 at, void *bytes, kapi_size size)
{
	return copy_from_user(bytes, (void __user *)(unsigned long)at, size) ? -EFAULT : 0;
}

long verbs_test_pinned(void)
{
	return atomic64_read(&current->mm->pinned_vm);
}

void verbs_test_unprivileged(int on)
{
	struct cred *new = prepare_creds();

	if (!new)
		return;
	if (on)
		cap_lower(new->cap_effective, CAP_IPC_LOCK);
	else
		new->cap_effective = new->cap_permitted;
	commit_creds(new);
}

#define PIECES 8

/* Two tables of five entries, the last of the first one leading to the second. */
struct kapi_sglist *verbs_test_sglist(void *memory, kapi_size size, unsigned int count)
{
	struct scatterlist *list, *entry;
	unsigned int i;

	list = kcalloc(PIECES + 2, sizeof(*list), GFP_KERNEL);
	if (!list || count != PIECES)
		return NULL;
	sg_init_table(list, 5);
	sg_init_table(list + 5, 4);
	sg_chain(list, 5, list + 5);
	for_each_sg(list, entry, PIECES, i)
		sg_set_buf(entry, (char *)memory + i * size, size);
	return (struct kapi_sglist *)list;
}

void verbs_test_sglist_free(struct kapi_sglist *list)
{
	kfree(list);
}

int verbs_test_into(void *memory, kapi_size size, int (*use)(struct kapi_msg *msg, void *context), void *context)
{
	struct kvec vector = { .iov_base = memory, .iov_len = size };
	struct msghdr msg = {};

	iov_iter_kvec(&msg.msg_iter, ITER_DEST, &vector, 1, size);
	return use(kapi_msg_of(&msg), context);
}

static int __init verbs_test_init(void)
{
	return verbs_test_run(kapi_net_of(&init_net));
}

static void __exit verbs_test_exit(void)
{
}

module_init(verbs_test_init);
module_exit(verbs_test_exit);

MODULE_DESCRIPTION("hawser: self-test of kapi's verbs");
MODULE_AUTHOR("The hawser project");
MODULE_LICENSE("GPL");
