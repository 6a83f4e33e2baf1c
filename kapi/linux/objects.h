/* SPDX-License-Identifier: GPL-2.0 */
/* The start and the end of objects.c. */
#ifndef KAPI_LINUX_OBJECTS_H
#define KAPI_LINUX_OBJECTS_H

/* Once, before the first allocation. */
void kapi_objects_init(void);
/* All is freed. */
void kapi_objects_exit(void);

#endif
