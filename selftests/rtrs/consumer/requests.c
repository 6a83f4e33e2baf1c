// SPDX-License-Identifier: GPL-2.0
/* Requests of a session: data, messages, limits, errors, permits. */
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "consumer.h"

/* Runs a test with a session. */
static bool with_session(bool (*test)(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs))
{
	struct rtrs_clt_sess *sess;
	struct rtrs_attrs attrs;
	bool good = false;

	CHECK(!consumer_server_open());
	sess = consumer_open(CONSUMER_NAME);
	if (!IS_ERR(sess)) {
		good = !rtrs_clt_query(sess, &attrs) && attrs.queue_depth == consumer_server.depth &&
		       test(sess, &attrs) && !consumer_server.damaged;
		rtrs_clt_close(sess);
	}
	consumer_server_close();
	return good;
}

/* Pages that are not neighbours, for the data of the largest request. */
struct memory {
	unsigned int count;
	void **pages;
	struct scatterlist *list;
};

static void memory_free(struct memory *memory)
{
	while (memory->count)
		free_page((unsigned long)memory->pages[--memory->count]);
	kvfree(memory->pages);
	kvfree(memory->list);
}

static bool memory_make(struct memory *memory, size_t bytes)
{
	unsigned int most = DIV_ROUND_UP(bytes, PAGE_SIZE);

	*memory = (struct memory){ .pages = kvcalloc(most, sizeof(void *), GFP_KERNEL),
				   .list = kvcalloc(most, sizeof(struct scatterlist), GFP_KERNEL) };
	while (memory->pages && memory->list && memory->count < most) {
		void *page = (void *)get_zeroed_page(GFP_KERNEL);

		if (!page)
			break;
		memory->pages[memory->count++] = page;
	}
	if (memory->count == most)
		return true;
	memory_free(memory);
	return false;
}

/* A list of the first bytes; the first piece begins at offset, as that of a file's last sector may. The number of pieces. */
static unsigned int memory_list(struct memory *memory, size_t offset, size_t bytes)
{
	unsigned int pieces = DIV_ROUND_UP(offset + bytes, PAGE_SIZE), i;

	sg_init_table(memory->list, pieces);
	for (i = 0; i < pieces; i++) {
		size_t length = min(bytes, PAGE_SIZE - offset);

		sg_set_buf(&memory->list[i], memory->pages[i] + offset, length);
		bytes -= length;
		offset = 0;
	}
	return pieces;
}

static u8 content(size_t at, size_t salt)
{
	return at * 31 + (at >> 8) + salt;
}

static void memory_fill(struct memory *memory, size_t offset, size_t bytes, size_t salt)
{
	size_t i;

	for (i = offset; i < offset + bytes; i++)
		((u8 *)memory->pages[i / PAGE_SIZE])[i % PAGE_SIZE] = content(i - offset, salt);
}

/* The bytes are there, and none beside them has changed. */
static bool memory_holds(const struct memory *memory, size_t offset, size_t bytes, size_t salt, u8 beside)
{
	size_t i;

	for (i = 0; i < memory->count * PAGE_SIZE; i++) {
		u8 wanted = i < offset || i >= offset + bytes ? beside : content(i - offset, salt);

		if (((u8 *)memory->pages[i / PAGE_SIZE])[i % PAGE_SIZE] != wanted)
			return false;
	}
	return true;
}

static bool one_size(struct rtrs_clt_sess *sess, struct memory *memory, size_t offset, size_t bytes)
{
	unsigned int pieces = memory_list(memory, offset, bytes), i;

	memory_fill(memory, offset, bytes, bytes);
	CHECK(!consumer_request(sess, RTRS_IO_CON, CONSUMER_STORE, 3, bytes, memory->list, pieces));
	for (i = 0; i < memory->count; i++)
		memset(memory->pages[i], 0xa5, PAGE_SIZE);
	CHECK(!consumer_request(sess, RTRS_IO_CON, CONSUMER_LOAD, 3, bytes, memory->list, pieces));
	CHECK(memory_holds(memory, offset, bytes, bytes, 0xa5));
	return true;
}

static bool data(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs)
{
	const size_t sizes[] = { 1, 511, 512, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 5 * PAGE_SIZE + 512,
				 attrs->max_io_size - PAGE_SIZE, attrs->max_io_size - 1, attrs->max_io_size };
	struct memory memory;
	bool good = true;
	int i;

	CHECK(memory_make(&memory, attrs->max_io_size + PAGE_SIZE));
	for (i = 0; i < ARRAY_SIZE(sizes) && good; i++) {
		good = one_size(sess, &memory, 0, sizes[i]);
		if (good && sizes[i] + 512 <= attrs->max_io_size)
			good = one_size(sess, &memory, 512, sizes[i]);
		if (!good)
			pr_err("rtrs_test: %zu bytes\n", sizes[i]);
	}
	memory_free(&memory);
	return good;
}

bool consumer_data(void) { return with_session(data); }

static bool messages(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs)
{
	size_t text;

	for (text = 0; text <= CONSUMER_TEXT; text++) {
		CHECK(!consumer_request(sess, RTRS_IO_CON, CONSUMER_STORE, text, 0, NULL, 0));
		CHECK(!consumer_request(sess, RTRS_ADMIN_CON, CONSUMER_LOAD, text, 0, NULL, 0));
	}
	return consumer_server.requests == 2 * (CONSUMER_TEXT + 1);
}

bool consumer_messages(void) { return with_session(messages); }

static bool limits(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs)
{
	static u8 long_text[8192];
	struct kvec piece = { .iov_base = long_text, .iov_len = sizeof(long_text) };
	struct rtrs_permit *permit = rtrs_clt_get_permit(sess, RTRS_IO_CON, RTRS_PERMIT_WAIT);
	struct consumer_call call;
	struct memory memory;
	unsigned int pieces;
	int long_message, large, store;

	CHECK(memory_make(&memory, attrs->max_io_size + 2 * PAGE_SIZE));
	pieces = memory_list(&memory, 0, attrs->max_io_size + PAGE_SIZE);
	large = consumer_send(sess, permit, &call, CONSUMER_STORE, 0, attrs->max_io_size + PAGE_SIZE, memory.list, pieces);
	long_message = rtrs_clt_request(WRITE, &call.ops, sess, permit, &piece, 1, 0, NULL, 0);
	rtrs_clt_put_permit(sess, permit);
	pieces = memory_list(&memory, 0, PAGE_SIZE);
	store = consumer_request(sess, RTRS_IO_CON, CONSUMER_STORE, 0, PAGE_SIZE, memory.list, pieces); /* it goes on */
	memory_free(&memory);
	CHECK(large == -EMSGSIZE && long_message == -EMSGSIZE && !call.ended);
	CHECK(!store);
	CHECK(!rtrs_clt_rdma_cq_direct(sess, 0));
	return true;
}

bool consumer_limits(void) { return with_session(limits); }

static bool errors(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs)
{
	static const struct {
		enum consumer_op op;
		int error;
	} cases[] = { { CONSUMER_REFUSE, -EROFS }, { CONSUMER_FAIL, -ENOSPC } };
	int i, round;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		for (round = 0; round < 3; round++) {
			struct rtrs_permit *permit = rtrs_clt_get_permit(sess, RTRS_IO_CON, RTRS_PERMIT_WAIT);
			struct consumer_call call;
			int sent = consumer_send(sess, permit, &call, cases[i].op, 5, 0, NULL, 0);

			if (!sent)
				wait_for_completion(&call.done);
			rtrs_clt_put_permit(sess, permit);
			CHECK(!sent);
			/* A second end would come before the end of this one. */
			CHECK(!consumer_request(sess, RTRS_IO_CON, CONSUMER_STORE, 0, 0, NULL, 0));
			CHECK(call.ended == 1 && call.error == cases[i].error);
		}
	return true;
}

bool consumer_errors(void) { return with_session(errors); }

struct waiter {
	struct work_struct work;
	struct rtrs_clt_sess *sess;
	struct rtrs_permit *permit;
	struct completion done;
};

static void wait_for_permit(struct work_struct *work)
{
	struct waiter *waiter = container_of(work, struct waiter, work);

	waiter->permit = rtrs_clt_get_permit(waiter->sess, RTRS_IO_CON, RTRS_PERMIT_WAIT);
	complete(&waiter->done);
}

/* True: a task that waits gets the permit that is given back, and not before. */
static bool waits_for(struct rtrs_clt_sess *sess, struct rtrs_permit **permit)
{
	struct waiter waiter = { .sess = sess };
	bool early;

	init_completion(&waiter.done);
	INIT_WORK_ONSTACK(&waiter.work, wait_for_permit);
	queue_work(system_unbound_wq, &waiter.work);
	early = wait_for_completion_timeout(&waiter.done, HZ / 5);
	rtrs_clt_put_permit(sess, *permit);
	if (!early)
		wait_for_completion(&waiter.done);
	destroy_work_on_stack(&waiter.work);
	*permit = waiter.permit;
	return !early && waiter.permit;
}

static bool permits(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs)
{
	struct rtrs_permit **all = kvcalloc(attrs->queue_depth, sizeof(*all), GFP_KERNEL);
	struct rtrs_permit *more;
	unsigned int count = 0;
	bool waited;

	CHECK(all);
	while (count < attrs->queue_depth && (all[count] = rtrs_clt_get_permit(sess, RTRS_IO_CON, RTRS_PERMIT_NOWAIT)))
		count++;
	more = rtrs_clt_get_permit(sess, RTRS_IO_CON, RTRS_PERMIT_NOWAIT);
	waited = count && waits_for(sess, &all[0]);
	if (more)
		rtrs_clt_put_permit(sess, more);
	while (count && all[count - 1])
		rtrs_clt_put_permit(sess, all[--count]);
	kvfree(all);
	CHECK(!more && waited && !count);
	return true;
}

bool consumer_permits(void) { return with_session(permits); }

static bool atomic(struct rtrs_clt_sess *sess, const struct rtrs_attrs *attrs)
{
	struct rtrs_permit *permit;
	struct consumer_call call;
	struct memory memory;
	unsigned int pieces;
	int sent = -ENOMEM;

	CHECK(memory_make(&memory, 4 * PAGE_SIZE));
	memory_fill(&memory, 0, 4 * PAGE_SIZE, 1);
	pieces = memory_list(&memory, 0, 4 * PAGE_SIZE);
	local_bh_disable();
	permit = rtrs_clt_get_permit(sess, RTRS_IO_CON, RTRS_PERMIT_NOWAIT);
	if (permit)
		sent = consumer_send(sess, permit, &call, CONSUMER_STORE, 1, 4 * PAGE_SIZE, memory.list, pieces);
	local_bh_enable();
	if (!sent)
		wait_for_completion(&call.done);
	local_bh_disable();
	if (permit)
		rtrs_clt_put_permit(sess, permit);
	local_bh_enable();
	memory_free(&memory);
	CHECK(!sent && !call.error);
	return true;
}

bool consumer_atomic(void) { return with_session(atomic); }
