/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rtrs_test.ko: a user of RTRS's exported interface (rtrs.h), which does what RNBD never does. Client and server are in one
 * module. Loading runs the tests; a failed one fails the load.
 */
#ifndef RTRS_TEST_CONSUMER_H
#define RTRS_TEST_CONSUMER_H

#include <linux/completion.h>
#include <linux/scatterlist.h>

#include <rtrs.h>

#define CONSUMER_PORT 4711
#define CONSUMER_NAME "consumer"

/* A test returns true; CHECK reports the line that fails. */
#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			pr_err("rtrs_test: %s:%d: %s\n", __FILE_NAME__, __LINE__, #condition); \
			return false;                                                     \
		}                                                                         \
	} while (0)
#ifndef __FILE_NAME__
#define __FILE_NAME__ kbasename(__FILE__)
#endif

/* [task] Waits ten seconds at most until condition holds; its last value. */
#define EVENTUALLY(condition)                                       \
	({                                                          \
		unsigned long limit_ = jiffies + 10 * HZ;           \
		bool holds_;                                        \
		while (!(holds_ = (condition)) && time_before(jiffies, limit_)) \
			msleep(1);                                  \
		holds_;                                             \
	})

/* ---- the server's side (server.c) */

/* What a message asks the server for: its first byte. Behind it are bytes that the server compares with consumer_text. */
enum consumer_op {
	CONSUMER_STORE = 'w',  /* keeps the data */
	CONSUMER_LOAD = 'r',   /* gives it back */
	CONSUMER_REFUSE = 'e', /* rdma_ev() returns -EROFS */
	CONSUMER_FAIL = 'x',   /* answers with -ENOSPC */
	CONSUMER_HOLD = 'h',   /* answers when consumer_release() is called */
};

struct consumer_server {
	int connected, disconnected; /* calls of link_ev() */
	int requests;
	int refuse;                  /* what link_ev() returns for a new session */
	int depth;                   /* of the last session */
	char name[64];               /* of the last session */
	bool damaged;                /* a message or a session's priv was not what it should be */
};

extern struct consumer_server consumer_server;

int consumer_server_open(void);     /* [task] 0 or an error */
void consumer_server_close(void);   /* [task] if it is open */
int consumer_held(void);            /* [any] requests that wait for an answer */
void consumer_release(void);        /* [any] has them answered in a hard interrupt */

/* ---- the client's side (client.c) */

#define CONSUMER_TEXT 200 /* bytes that can follow the first one */
extern u8 consumer_text[CONSUMER_TEXT];

struct consumer_call {
	struct rtrs_clt_req_ops ops;
	struct completion done;
	int ended; /* calls of conf_fn() */
	int error;
};

struct rtrs_clt_sess *consumer_open(const char *name); /* [task] over one path of v1 to v2; or ERR_PTR() */
int consumer_link(void);                               /* [any] RECONNECTED events less DISCONNECTED ones since the last open */

/* [any] Sends a request whose message is op with text bytes behind it, in two pieces. As rtrs_clt_request(). */
int consumer_send(struct rtrs_clt_sess *sess, struct rtrs_permit *permit, struct consumer_call *call, enum consumer_op op,
		  size_t text, size_t len, struct scatterlist *sg, unsigned int sg_cnt);
/* [task] A whole request with a permit of its own: waits for its end. */
int consumer_request(struct rtrs_clt_sess *sess, enum rtrs_clt_con_type type, enum consumer_op op, size_t text, size_t len,
		     struct scatterlist *sg, unsigned int sg_cnt);

/* ---- the tests */

bool consumer_addresses(void);
bool consumer_without_server(void);
bool consumer_names(void);
bool consumer_refused_session(void);
bool consumer_data(void);
bool consumer_messages(void);
bool consumer_limits(void);
bool consumer_errors(void);
bool consumer_permits(void);
bool consumer_atomic(void);
bool consumer_server_restart(void);
bool consumer_close_with_requests(void);

#endif
