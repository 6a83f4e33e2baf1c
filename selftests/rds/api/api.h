/* SPDX-License-Identifier: GPL-2.0 */
/* The errno of every call, in the order of the reference: one file a subject. */
#ifndef SELFTESTS_RDS_API_H
#define SELFTESTS_RDS_API_H

#include <string.h>
#include <unistd.h>

#include "ktap.h"
#include "rds.h"
#include "util.h"

/* An address to bind to: loopback addresses need no transport, the others are TCP's. */
struct place {
	const char *text;
	bool tcp;
};

#define PLACES 4
extern const struct place places[PLACES];

/* Addresses that no host has. */
#define NOBODY4 "192.0.2.1"
#define NOBODY6 "2001:db8::1"

void api_create(void);
void api_bind(void);
void api_connect(void);
void api_names(void);
void api_send(void);
void api_send_control(void);
void api_rdma(void);
void api_receive(void);
void api_runs(void);
void api_options(void);
void api_transport(void);
void api_ioctl(void);
void api_poll(void);
void api_timeouts(void);
void api_sysctl(void);

#endif
