/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SELFTESTS_RDS_NETNS_H
#define SELFTESTS_RDS_NETNS_H

#define SETTINGS "/proc/sys/net/rds/"

/** set_setting - write a file as in @ns: 0, or -1 and the errno */
int set_setting(int ns, const char *path, const char *value);
void netns_buffers(void);

#endif
