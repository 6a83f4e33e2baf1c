/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_INFO_DELTA_H
#define HAWSER_TOOLS_INFO_DELTA_H

/*
 * Counters as differences from the reading before.
 */

#include "info-tables.h"

/*
 * Replaces the values of @counters by what they have grown since the last call with the same @before, and notes the
 * values in it. A counter that is new (a transport was loaded) is shown whole, and so is one that became smaller (its
 * module was loaded again). @before belongs to the caller, empty at first; its rows are freed with free().
 */
void info_delta(struct info_rows *counters, struct info_rows *before);

/* Removes the counters that are 0. */
void info_only_changed(struct info_rows *counters);

#endif
