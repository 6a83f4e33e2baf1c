/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables for /proc/sys made from the core's rows, one copy a namespace: of rds.ko and its transports. A
 * module's rows differ in type only, so they come here field by field.
 */
#ifndef RDS_GLUE_SYSCTL_H
#define RDS_GLUE_SYSCTL_H

#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/version.h>
#include <net/net_namespace.h>

/* The kernel's handlers look at the bounds through a pointer of the value's own type. */
union rds_sysctl_bound {
	unsigned int of_int;
	unsigned long of_long;
};

struct rds_sysctl_limits {
	union rds_sysctl_bound min, max;
	void *owner; /* for handlers that do more than store */
};

struct rds_sysctl_dir {
	struct ctl_table_header *header;
	struct ctl_table *table;
	struct rds_sysctl_limits *limits; /* one a row */
	unsigned int room, used;
};

/* Room for that many rows, and the empty one that kernels before 6.6 need at the end. */
static inline int rds_sysctl_dir_init(struct rds_sysctl_dir *dir, unsigned int room)
{
	*dir = (struct rds_sysctl_dir){ .room = room };
	dir->table = kcalloc(size_add(room, 1), sizeof(*dir->table), GFP_KERNEL_ACCOUNT);
	dir->limits = kcalloc(room, sizeof(*dir->limits), GFP_KERNEL_ACCOUNT);
	if (dir->table && dir->limits)
		return 0;
	kfree(dir->limits);
	kfree(dir->table);
	return -ENOMEM;
}

static inline struct ctl_table *rds_sysctl_dir_next(struct rds_sysctl_dir *dir)
{
	return WARN_ON(dir->used == dir->room) ? NULL : &dir->table[dir->used++];
}

/* Adds an int or long, depending on size, at data. handler: NULL for the kernel's own. */
static inline void rds_sysctl_dir_add(struct rds_sysctl_dir *dir, const char *name, void *data,
				      unsigned int size, unsigned long min, unsigned long max,
				      proc_handler *handler, void *owner)
{
	struct rds_sysctl_limits *limits = &dir->limits[dir->used];
	struct ctl_table *entry = rds_sysctl_dir_next(dir);
	bool is_long = size == sizeof(long);

	if (!entry)
		return;
	limits->owner = owner;
	if (is_long) {
		limits->min.of_long = min;
		limits->max.of_long = max;
	} else {
		limits->min.of_int = min;
		limits->max.of_int = max;
	}
	if (!handler)
		handler = is_long ? proc_doulongvec_minmax : proc_douintvec_minmax;
	*entry = (struct ctl_table){
		.procname = name,
		.data = data,
		.maxlen = size,
		.mode = 0644,
		.proc_handler = handler,
		.extra1 = &limits->min,
		.extra2 = &limits->max,
	};
}

/* The owner that was given for an entry, for its handler. */
static inline void *rds_sysctl_owner(const struct ctl_table *entry)
{
	return container_of(entry->extra1, struct rds_sysctl_limits, min)->owner;
}

static inline int rds_sysctl_dir_register(struct rds_sysctl_dir *dir, struct net *net, const char *path)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	dir->header = register_net_sysctl(net, path, dir->table);
#else
	dir->header = register_net_sysctl_sz(net, path, dir->table, dir->used);
#endif
	return dir->header ? 0 : -ENOMEM;
}

/* No handler runs when it returns. */
static inline void rds_sysctl_dir_destroy(struct rds_sysctl_dir *dir)
{
	if (dir->header)
		unregister_net_sysctl_table(dir->header);
	kfree(dir->limits);
	kfree(dir->table);
}

#endif
