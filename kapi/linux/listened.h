/* SPDX-License-Identifier: GPL-2.0 */
/* What a tracepoint calls when its first listener comes, and when its last one has gone. */
#ifndef LISTENED_H
#define LISTENED_H

#define LISTENED_TO(name)                                                                                              \
	int trace_begins_##name(void);                                                                                 \
	void trace_ends_##name(void);

#endif
