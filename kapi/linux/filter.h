/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KAPI_LINUX_FILTER_H
#define KAPI_LINUX_FILTER_H

int kapi_filters_init(void); /* A packet for each CPU. -ENOMEM. */
void kapi_filters_exit(void);

#endif
