/* SPDX-License-Identifier: GPL-2.0 */
/* A broken or malicious local program: it gets errors, and nothing else happens. */
#ifndef SELFTESTS_RDS_HOSTILE_H
#define SELFTESTS_RDS_HOSTILE_H

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "task.h"
#include "util.h"

extern uint64_t seed;

/** all_is_well - true if fresh sockets work */
bool all_is_well(void);

void user_headers(void);
void user_control(void);
void user_stalls(void);
void user_pieces(void);
void user_processes(void);
void user_closes(void);
void user_crowd(void);
void user_storm(void);

#endif
