/* SPDX-License-Identifier: GPL-2.0 */
/* The start and the end of objects.c. */
#ifndef KAPI_LINUX_OBJECTS_H
#define KAPI_LINUX_OBJECTS_H

int kapi_objects_init(void);
void kapi_objects_exit(void);

#endif
