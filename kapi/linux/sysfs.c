// SPDX-License-Identifier: GPL-2.0
/*
 * Folders and files below /sys/class.
 *
 * Devices and folders are the kernel's own objects, with its release functions, so that an object to which the kernel still
 * refers after its removal needs nothing of this module. What this file adds is freed as soon as no file can be called.
 */

#include <linux/device.h>
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <kapi/linux.h>
#include <kapi/sysfs.h>

#include "opaque.h"

struct kapi_sysfs_class {
	struct class *class;
	struct module *owner;
	struct list_head devices; /* under names_mutex */
};

struct file_entry {
	/* The file of a device or of another folder, whose show and store have different types. Each begins with attr. */
	union {
		struct attribute attr;
		struct device_attribute device;
		struct kobj_attribute folder;
	};
	const struct kapi_sysfs_file *file;
	struct kapi_sysfs_dir *dir;
};

struct kapi_sysfs_dir {
	struct kapi_sysfs_class *of;
	struct device *device; /* NULL: a folder below another one */
	struct list_head in_class; /* of a device: under names_mutex */
	char *name; /* of a device */
	struct kobject *kobj;
	void *context;
	unsigned long going; /* bit 0: it is being removed, or a call has left to remove it */
	struct attribute_group group;
	const struct attribute_group *groups[2];
	struct attribute **attrs;
	unsigned int count;
	struct file_entry entries[];
};

/*
 * The kernel logs a warning when a name is there already. With this mutex held it can be looked for. Files are neither made nor
 * removed under it: their removal waits for calls, which may make folders.
 */
static DEFINE_MUTEX(names_mutex);

static ssize_t show_file(const struct file_entry *entry, char *text)
{
	return entry->file->show(entry->dir->context, text);
}

/* The folder may be gone when store returns. */
static ssize_t store_file(const struct file_entry *entry, const char *text, size_t length)
{
	struct module *owner = entry->dir->of->owner;
	int error;

	if (!try_module_get(owner))
		return -ENODEV;
	error = entry->file->store(entry->dir->context, text, length);
	module_put(owner);
	return error ? error : (ssize_t)length;
}

static ssize_t show_device_file(struct device *device, struct device_attribute *attr, char *text)
{
	return show_file(container_of(attr, struct file_entry, device), text);
}

static ssize_t store_device_file(struct device *device, struct device_attribute *attr, const char *text, size_t length)
{
	return store_file(container_of(attr, struct file_entry, device), text, length);
}

static ssize_t show_folder_file(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	return show_file(container_of(attr, struct file_entry, folder), text);
}

static ssize_t store_folder_file(struct kobject *kobj, struct kobj_attribute *attr, const char *text, size_t length)
{
	return store_file(container_of(attr, struct file_entry, folder), text, length);
}

int kapi_sysfs_class_create(struct kapi_module *owner, const char *name, struct kapi_sysfs_class **made)
{
	struct kapi_sysfs_class *of = kzalloc(sizeof(*of), GFP_KERNEL | __GFP_NOWARN);

	might_sleep();
	if (!of)
		return -ENOMEM;
	of->owner = kapi_module_to_module(owner);
	INIT_LIST_HEAD(&of->devices);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	of->class = class_create(name);
#else
	of->class = class_create(of->owner, name);
#endif
	if (IS_ERR(of->class)) {
		int error = PTR_ERR(of->class);

		kfree(of);
		return error;
	}
	*made = of;
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_sysfs_class_create);

void kapi_sysfs_class_destroy(struct kapi_sysfs_class *made)
{
	might_sleep();
	if (!made)
		return;
	class_destroy(made->class);
	kfree(made);
}
EXPORT_SYMBOL_GPL(kapi_sysfs_class_destroy);

/* The kernel would write "!" for "/". */
static bool is_name(const char *name)
{
	size_t length = strnlen(name, NAME_MAX + 1);

	return length && length <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

/*
 * A call that has left removes the others of its folder, so each file of a table is a lock class of its own for lockdep, which
 * only needs an address.
 */
static void set_lock_class(struct attribute *attr, const struct kapi_sysfs_file *file)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	attr->key = (struct lock_class_key *)file;
#endif
}

static void fill_entry(struct kapi_sysfs_dir *dir, struct file_entry *entry, const struct kapi_sysfs_file *file, bool of_device)
{
	entry->file = file;
	entry->dir = dir;
	set_lock_class(&entry->attr, file);
	entry->attr.name = file->name;
	entry->attr.mode = (file->show ? 0444 : 0) | (file->store ? 0200 : 0);
	if (of_device) {
		entry->device.show = file->show ? show_device_file : NULL;
		entry->device.store = file->store ? store_device_file : NULL;
	} else {
		entry->folder.show = file->show ? show_folder_file : NULL;
		entry->folder.store = file->store ? store_folder_file : NULL;
	}
}

static struct kapi_sysfs_dir *alloc_dir(struct kapi_sysfs_class *of, const struct kapi_sysfs_file *files, unsigned int count,
					void *context, bool of_device)
{
	struct kapi_sysfs_dir *dir = kzalloc(struct_size(dir, entries, count), GFP_KERNEL | __GFP_NOWARN);
	unsigned int i;

	if (!dir)
		return NULL;
	dir->attrs = kcalloc(count + 1, sizeof(*dir->attrs), GFP_KERNEL | __GFP_NOWARN);
	if (!dir->attrs) {
		kfree(dir);
		return NULL;
	}
	for (i = 0; i < count; i++) {
		fill_entry(dir, &dir->entries[i], &files[i], of_device);
		dir->attrs[i] = &dir->entries[i].attr;
	}
	dir->of = of;
	dir->context = context;
	dir->count = count;
	dir->group.attrs = dir->attrs;
	dir->groups[0] = &dir->group;
	return dir;
}

static void free_dir(struct kapi_sysfs_dir *dir)
{
	kfree(dir->name);
	kfree(dir->attrs);
	kfree(dir);
}

/*
 * The class forgets a device long before its folder goes, which waits for calls of its files (device_del()): the names are in a
 * list of our own until then.
 */
static int take_name(struct kapi_sysfs_dir *dir, const char *name)
{
	struct kapi_sysfs_dir *other;
	int error = 0;

	dir->name = kstrdup(name, GFP_KERNEL | __GFP_NOWARN);
	if (!dir->name)
		return -ENOMEM;
	mutex_lock(&names_mutex);
	list_for_each_entry(other, &dir->of->devices, in_class) {
		if (!strcmp(other->name, name))
			error = -EEXIST;
	}
	if (!error)
		list_add(&dir->in_class, &dir->of->devices);
	mutex_unlock(&names_mutex);
	return error;
}

static void give_back_name(struct kapi_sysfs_dir *dir)
{
	mutex_lock(&names_mutex);
	list_del(&dir->in_class);
	mutex_unlock(&names_mutex);
}

static int add_device(struct kapi_sysfs_dir *dir, const char *name)
{
	int error = take_name(dir, name);

	if (error)
		return error;
	dir->device = device_create_with_groups(dir->of->class, NULL, MKDEV(0, 0), dir, dir->groups, "%s", name);
	if (IS_ERR(dir->device)) {
		give_back_name(dir);
		return PTR_ERR(dir->device);
	}
	dir->kobj = &dir->device->kobj;
	return 0;
}

static int add_empty_folder(struct kapi_sysfs_dir *dir, struct kobject *parent, const char *name)
{
	struct kernfs_node *there;
	int error = 0;

	mutex_lock(&names_mutex);
	there = kernfs_find_and_get(parent->sd, name);
	if (there) {
		kernfs_put(there);
		error = -EEXIST;
	} else {
		dir->kobj = kobject_create_and_add(name, parent);
		if (!dir->kobj)
			error = -ENOMEM;
	}
	mutex_unlock(&names_mutex);
	return error;
}

static int add_folder(struct kapi_sysfs_dir *dir, struct kobject *parent, const char *name)
{
	int error = add_empty_folder(dir, parent, name);

	if (error)
		return error;
	error = sysfs_create_group(dir->kobj, &dir->group);
	if (error) {
		kobject_del(dir->kobj);
		kobject_put(dir->kobj);
	}
	return error;
}

static int create(struct kapi_sysfs_class *of, struct kapi_sysfs_dir *parent, const char *name,
		  const struct kapi_sysfs_file *files, unsigned int count, void *context, struct kapi_sysfs_dir **made)
{
	struct kapi_sysfs_dir *dir;
	int error;

	might_sleep();
	if (!is_name(name))
		return -EINVAL;
	dir = alloc_dir(of, files, count, context, !parent);
	if (!dir)
		return -ENOMEM;
	error = parent ? add_folder(dir, parent->kobj, name) : add_device(dir, name);
	if (error) {
		free_dir(dir);
		return error;
	}
	*made = dir;
	return 0;
}

int kapi_sysfs_device_create(struct kapi_sysfs_class *of, const char *name, const struct kapi_sysfs_file *files,
			     unsigned int count, void *context, struct kapi_sysfs_dir **dir)
{
	return create(of, NULL, name, files, count, context, dir);
}
EXPORT_SYMBOL_GPL(kapi_sysfs_device_create);

int kapi_sysfs_dir_create(struct kapi_sysfs_dir *parent, const char *name, const struct kapi_sysfs_file *files,
			  unsigned int count, void *context, struct kapi_sysfs_dir **dir)
{
	return create(parent->of, parent, name, files, count, context, dir);
}
EXPORT_SYMBOL_GPL(kapi_sysfs_dir_create);

void kapi_sysfs_remove(struct kapi_sysfs_dir *dir)
{
	might_sleep();
	if (!dir)
		return;
	set_bit(0, &dir->going);
	if (dir->device) {
		device_unregister(dir->device);
		give_back_name(dir);
	} else {
		kobject_del(dir->kobj); /* with its files, also when others refer to it */
		kobject_put(dir->kobj);
	}
	free_dir(dir);
}
EXPORT_SYMBOL_GPL(kapi_sysfs_remove);

int kapi_sysfs_leave(struct kapi_sysfs_dir *dir, const char *file)
{
	unsigned int i;

	might_sleep();
	for (i = 0; i < dir->count; i++) {
		struct file_entry *entry = &dir->entries[i];

		if (!strcmp(entry->file->name, file))
			return !test_and_set_bit(0, &dir->going) && sysfs_remove_file_self(dir->kobj, &entry->attr);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(kapi_sysfs_leave);
