/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Folders and files below /sys/class: what a driver shows of its objects and the settings that it takes.
 *
 * A folder holds files (a table with static storage) and other folders. Show and store are calls of programs: [task] contexts
 * in which nothing of the program's memory is reached, because the host has copied the text. Several may run at a time.
 */
#ifndef KAPI_SYSFS_H
#define KAPI_SYSFS_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_sysfs_class; /* /sys/class/NAME */
struct kapi_sysfs_dir;   /* a folder below it */

#define KAPI_SYSFS_TEXT 4095 /* bytes that a file can show: Linux keeps one of a page */

struct kapi_sysfs_file {
	const char *name;
	/* [task] Writes at most KAPI_SYSFS_TEXT bytes of text and returns how many, or a negative errno. NULL: not readable. */
	int (*show)(void *context, char *text);
	/*
	 * [task] text has length bytes and a zero behind them; a trailing newline is the caller's to strip. Returns 0 (all of it
	 * was taken) or a negative errno. The owner of the class stays loaded during the call. NULL: the file cannot be written
	 * (mode 0444, else 0644).
	 */
	int (*store)(void *context, const char *text, kapi_size length);
};

/* [init] /sys/class/NAME, without files of its own. -EEXIST, -ENOMEM. name is kept by the caller. */
int kapi_sysfs_class_create(struct kapi_module *owner, const char *name, struct kapi_sysfs_class **made) KAPI_NOEXCEPT;
void kapi_sysfs_class_destroy(struct kapi_sysfs_class *made) KAPI_NOEXCEPT; /* [init] it has no folder. NULL allowed */

/*
 * [sleep] A folder of a class (a device without a driver: /sys/class/CLASS/NAME leads to it), or below another folder, with count
 * files, for which context is kept. It is visible, with all files, when this returns, and show and store may be called before.
 * -EEXIST: there is one of that name; -EINVAL: a name that cannot be one; -ENOMEM.
 */
int kapi_sysfs_device_create(struct kapi_sysfs_class *of, const char *name, const struct kapi_sysfs_file *files,
			     unsigned int count, void *context, struct kapi_sysfs_dir **dir) KAPI_NOEXCEPT;
int kapi_sysfs_dir_create(struct kapi_sysfs_dir *parent, const char *name, const struct kapi_sysfs_file *files,
			  unsigned int count, void *context, struct kapi_sysfs_dir **dir) KAPI_NOEXCEPT;
/*
 * [sleep] Removes it; the folders in it were removed before. Waits for show and store of its files: neither runs nor begins any
 * more when this returns. Not from one of them, unless kapi_sysfs_leave() was called there. NULL allowed.
 */
void kapi_sysfs_remove(struct kapi_sysfs_dir *dir) KAPI_NOEXCEPT;
/*
 * [task] From store of that file: removes the file, and the folder's removal does not wait for this call any more, so that it
 * may remove the folder itself. 1: this call was the first, and the file's other calls have returned; 0: another call has left,
 * or the folder is being removed, and this one is to return. At most one call of a folder gets 1.
 */
int kapi_sysfs_leave(struct kapi_sysfs_dir *dir, const char *file) KAPI_NOEXCEPT;

KAPI_END
#endif
