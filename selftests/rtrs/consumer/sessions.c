// SPDX-License-Identifier: GPL-2.0
/* Sessions are opened and closed. */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/string.h>

#include "consumer.h"

bool consumer_without_server(void)
{
	struct rtrs_clt_sess *sess = consumer_open(CONSUMER_NAME);

	CHECK(IS_ERR(sess));
	CHECK(PTR_ERR(sess) == -ECONNRESET);
	return true;
}

static bool names(void)
{
	struct rtrs_clt_sess *sess = consumer_open(CONSUMER_NAME), *second;

	CHECK(!IS_ERR(sess));
	second = consumer_open(CONSUMER_NAME);
	if (!IS_ERR(second))
		rtrs_clt_close(second);
	rtrs_clt_close(sess);
	CHECK(PTR_ERR_OR_ZERO(second) == -EEXIST);
	CHECK(!strcmp(consumer_server.name, CONSUMER_NAME));
	CHECK(PTR_ERR_OR_ZERO(consumer_open("a/b")) == -EINVAL);
	CHECK(PTR_ERR_OR_ZERO(consumer_open("a.b")) == -EINVAL);
	CHECK(PTR_ERR_OR_ZERO(consumer_open("")) == -EINVAL);
	CHECK(EVENTUALLY(READ_ONCE(consumer_server.disconnected) == consumer_server.connected));
	return !consumer_server.damaged;
}

bool consumer_names(void)
{
	bool good;

	CHECK(!consumer_server_open());
	good = names();
	consumer_server_close();
	return good;
}

static bool refused(void)
{
	struct rtrs_clt_sess *sess;

	consumer_server.refuse = -EPERM;
	sess = consumer_open(CONSUMER_NAME);
	if (!IS_ERR(sess))
		rtrs_clt_close(sess);
	CHECK(IS_ERR(sess));
	consumer_server.refuse = 0;
	CHECK(EVENTUALLY(!IS_ERR(sess = consumer_open(CONSUMER_NAME)))); /* the server has ended the first one */
	rtrs_clt_close(sess);
	CHECK(EVENTUALLY(READ_ONCE(consumer_server.disconnected) == consumer_server.connected));
	return !consumer_server.damaged;
}

bool consumer_refused_session(void)
{
	bool good;

	CHECK(!consumer_server_open());
	good = refused();
	consumer_server_close();
	return good;
}

static bool restart(struct rtrs_clt_sess *sess)
{
	struct rtrs_attrs attrs;

	CHECK(!consumer_request(sess, RTRS_ADMIN_CON, CONSUMER_STORE, 0, 0, NULL, 0));
	consumer_server_close();
	CHECK(EVENTUALLY(consumer_link() == -1));
	CHECK(rtrs_clt_query(sess, &attrs) == -ECOMM);
	CHECK(consumer_request(sess, RTRS_IO_CON, CONSUMER_STORE, 0, 0, NULL, 0) == -ECONNABORTED);
	CHECK(!consumer_server_open());
	CHECK(EVENTUALLY(consumer_link() == 0));
	CHECK(!rtrs_clt_query(sess, &attrs));
	CHECK(!consumer_request(sess, RTRS_IO_CON, CONSUMER_STORE, 0, 0, NULL, 0));
	return !consumer_server.damaged;
}

bool consumer_server_restart(void)
{
	struct rtrs_clt_sess *sess;
	bool good = false;

	CHECK(!consumer_server_open());
	sess = consumer_open(CONSUMER_NAME);
	if (!IS_ERR(sess)) {
		good = restart(sess);
		rtrs_clt_close(sess);
	}
	consumer_server_close();
	return good;
}

/* A close waits for the permits of what is in flight, whose requests end, whether or not the server answers. */
static bool close_with_requests(struct rtrs_clt_sess *sess)
{
	struct rtrs_permit *permit = rtrs_clt_get_permit(sess, RTRS_IO_CON, RTRS_PERMIT_WAIT);
	struct consumer_call call;
	int sent = consumer_send(sess, permit, &call, CONSUMER_HOLD, 0, 0, NULL, 0);

	if (!sent && EVENTUALLY(consumer_held() == 1)) {
		consumer_release();
		wait_for_completion(&call.done);
	}
	rtrs_clt_put_permit(sess, permit);
	rtrs_clt_close(sess);
	CHECK(!sent);
	CHECK(call.ended == 1 && !call.error);
	CHECK(EVENTUALLY(READ_ONCE(consumer_server.disconnected) == consumer_server.connected));
	return !consumer_server.damaged;
}

bool consumer_close_with_requests(void)
{
	struct rtrs_clt_sess *sess;
	bool good = false;

	CHECK(!consumer_server_open());
	sess = consumer_open(CONSUMER_NAME);
	if (!IS_ERR(sess))
		good = close_with_requests(sess);
	consumer_server_close();
	return good;
}
