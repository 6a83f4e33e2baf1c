/* SPDX-License-Identifier: GPL-2.0 */
/* Received bytes that are kept: between the files of kapi/linux that make them. */
#ifndef KAPI_LINUX_RXBUF_H
#define KAPI_LINUX_RXBUF_H

#include <linux/build_bug.h>
#include <linux/skbuff.h>

#include <kapi/stream.h>

/*
 * They are a socket buffer; this is its control block. A clone of TCP's holds that whole buffer's memory and is charged
 * for its share of it, which adds up when all parts of a buffer are kept.
 */
struct kapi_kept {
	struct kapi_rxbuf *next;
	u32 offset, length;
	size_t true_size; /* what a clone of a program's stream is charged, too */
	bool whole_page;  /* of kapi_rxbuf_create() */
};

static inline struct sk_buff *kapi_rxbuf_skb(const struct kapi_rxbuf *buffer)
{
	return (struct sk_buff *)buffer;
}

static inline struct kapi_kept *kapi_kept_of(const struct kapi_rxbuf *buffer)
{
	BUILD_BUG_ON(sizeof(struct kapi_kept) > sizeof(kapi_rxbuf_skb(buffer)->cb));
	return (struct kapi_kept *)kapi_rxbuf_skb(buffer)->cb;
}

/* Frees what was kept for the next ones. None is made any more. */
void kapi_rx_spares_free(void);

/*
 * Bytes of the offer from offset on that lie in one piece which needs no mapping, as headers mostly do, and how many. NULL: they
 * have to be copied.
 */
const void *kapi_rx_piece(struct kapi_rx *rx, size_t offset, size_t *length);

#endif
