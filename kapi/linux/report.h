/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KAPI_LINUX_REPORT_H
#define KAPI_LINUX_REPORT_H

/* [init] The family of generic netlink, without tables. */
int kapi_reports_init(void);
void kapi_reports_exit(void);

#endif
