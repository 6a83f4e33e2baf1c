// SPDX-License-Identifier: GPL-2.0
/*
 * A program's TCP socket with TLS on it: what is sent becomes records, what is received is what was in them.
 *
 * TLS decrypts for a task that reads through the socket's read_sock(), which has that since 6.6. Its callbacks stay where they
 * are, in the socket; hawser's take the place of those that TLS calls in turn, and are found there when it ends. No key changes
 * meanwhile: both are set before, and once.
 */

#include <linux/version.h>

#include "stream.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) && IS_ENABLED(CONFIG_TLS) && !IS_ENABLED(CONFIG_HIGHMEM)

#include <linux/mm.h>
#include <linux/string.h>
#include <net/inet_connection_sock.h>
#include <net/strparser.h>
#include <net/tls.h>
#include <net/tls_prot.h>

static struct sk_skb_cb *record_of(struct sk_buff *skb)
{
	return (struct sk_skb_cb *)skb->cb;
}

bool kapi_tls_is_usable(const struct sock *sk)
{
	const struct tcp_ulp_ops *ulp = inet_csk(sk)->icsk_ulp_ops;
	const struct tls_context *tls = tls_get_ctx(sk);

	return ulp && !strcmp(ulp->name, "tls") && tls && tls->tx_conf == TLS_SW && tls->rx_conf == TLS_SW &&
	       sk->sk_socket->ops->read_sock;
}

void kapi_tls_take_over(struct kapi_stream *stream)
{
	struct tls_context *tls = tls_get_ctx(stream->sk);

	stream->tls = true;
	stream->data_ready_slot = &tls_sw_ctx_rx(tls)->saved_data_ready;
	stream->write_space_slot = &tls->sk_write_space;
}

/* A non-data record waits for a program that handles it. 0: the next one is none. */
static int refusal_of(struct tls_sw_context_rx *rx)
{
	struct sk_buff *next = skb_peek(&rx->rx_list);
	u8 type = next ? record_of(next)->tls.control : TLS_RECORD_TYPE_DATA;

	if (type == TLS_RECORD_TYPE_DATA)
		return 0;
	return type == TLS_RECORD_TYPE_ALERT ? -ESHUTDOWN : -EPROTO;
}

/*
 * Behind what TLS has decrypted it has found a forged record: by its contents, whenever it is to read them, or by its header, as
 * soon as that was there. The socket's error decides nothing: it is set before the second read, and a program may have taken it.
 */
static bool is_forged(struct tls_sw_context_rx *rx, int result)
{
	return result == -EBADMSG || (rx->strp.stopped && skb_queue_empty(&rx->rx_list));
}

/*
 * The socket's error that TLS has taken, to give it to the reader, although there was none when the read began: core posts its
 * own without the lock, and a reset may come while TLS reads. 0: none. Any other result is what TLS itself finds wrong; so are
 * four errors in any case.
 */
static int taken_error(const struct kapi_stream *stream, int result)
{
	const struct sock *sk = stream->sk;
	bool of_socket = -result == READ_ONCE(stream->posted) || sk->sk_state == TCP_CLOSE;
	bool of_tls = result == -EAGAIN || result == -EINVAL || result == -EBADMSG || result == -EKEYEXPIRED;

	return result >= 0 || !of_socket || of_tls || READ_ONCE(sk->sk_err) ? 0 : -result;
}

int kapi_tls_read(struct kapi_stream *stream, read_descriptor_t *reader, sk_read_actor_t actor)
{
	struct sock *sk = stream->sk;
	struct tls_sw_context_rx *rx = tls_sw_ctx_rx(tls_get_ctx(sk));
	int error = READ_ONCE(sk->sk_err), result;

	/* TLS would wait for that reader without the lock, and report nothing when it went away without reading. */
	if (rx->reader_present)
		return -EBUSY;
	/*
	 * TLS gives the socket's error to the reader, but the program must find it, once. Behind a record TLS has taken the error
	 * or, since 7.1 and in later 6.12, left it; when it is gone, the program may have it. So TLS is not to look for an error
	 * behind a record. When it has no record at all, it returns the error that it takes.
	 */
	if (error)
		reader->count = 1;
	result = stream->sock->ops->read_sock(sk, reader, actor);
	if (result != -error)
		error = 0;
	error = error ?: taken_error(stream, result);
	if (error)
		kapi_stream_put_error_back(stream, error);
	if (result > 0)
		return result;
	if (is_forged(rx, result))
		return -EBADMSG;
	if (result == -EINVAL && refusal_of(rx))
		return refusal_of(rx);
	/*
	 * The end: a FIN, or that error, which is known already and is reported as what it is. But TLS has not looked at what
	 * came before it when it has left that to its own work, as when it came while the lock was held, or for want of memory.
	 */
	if (!result || (error && result == -error))
		return work_busy(&rx->strp.work) ? -EBUSY : -EAGAIN;
	return result;
}

#define SEND_BATCH 32

/* Returns the sum. */
static size_t fill(struct kvec *vector, const struct kapi_segment *segments, unsigned int count)
{
	unsigned int i;
	size_t sum = 0;

	for (i = 0; i < count; i++) {
		const struct kapi_segment *segment = &segments[i];

		vector[i].iov_base = segment->page ? page_address(segment->page) + segment->offset : (void *)segment->addr;
		vector[i].iov_len = segment->length;
		sum += segment->length;
	}
	return sum;
}

/*
 * TLS copies what it is given as bytes. Pages it could encrypt from where they are, but not in one record with bytes: then it
 * runs past the end of its own list (seen on 6.12). Nothing is announced as to be continued, for such a record would wait.
 */
int kapi_tls_send(struct kapi_stream *stream, const struct kapi_segment *segments, unsigned int *left, s64 *sent)
{
	struct sock *sk = stream->sk;
	int taken = 0;

	while (*left) {
		struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
		unsigned int count = min_t(unsigned int, *left, SEND_BATCH);
		struct kvec vector[SEND_BATCH];
		size_t sum = fill(vector, segments, count);

		iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, vector, count, sum);
		taken = READ_ONCE(sk->sk_prot)->sendmsg(sk, &msg, sum);
		if (taken < 0)
			break;
		*sent += taken;
		if (taken < sum)
			break;
		segments += count;
		*left -= count;
	}
	return taken;
}

bool kapi_tls_prepend(struct sock *sk, struct sk_buff_head *copies)
{
	struct tls_sw_context_rx *rx = tls_sw_ctx_rx(tls_get_ctx(sk));
	struct sk_buff *copy;

	/* A reader that waits for the next record looks at no others any more, and would get it before these bytes. */
	if (rx->reader_present && !skb_queue_empty(copies))
		return false;
	while ((copy = __skb_dequeue_tail(copies))) {
		memset(copy->cb, 0, sizeof(copy->cb));
		record_of(copy)->tls.control = TLS_RECORD_TYPE_DATA;
		strp_msg(copy)->full_len = copy->len;
		__skb_queue_head(&rx->rx_list, copy);
	}
	return true;
}

void kapi_tls_forget(struct sock *sk)
{
	struct tls_sw_context_rx *rx = tls_sw_ctx_rx(tls_get_ctx(sk));

	__skb_queue_purge(&rx->rx_list);
	/* Nobody reads a record any more. TLS may have copied a part of one, to which what comes next would be added. */
	rx->strp.stopped = 1;
	WRITE_ONCE(rx->strp.msg_ready, 0);
}

#endif
