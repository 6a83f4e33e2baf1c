/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Deferred work in a sleeping context. One work never runs twice at the same time; different works run in parallel.
 * A work queued while it runs runs again.
 */
#ifndef KAPI_WORK_H
#define KAPI_WORK_H

#include <kapi/types.h>

KAPI_BEGIN

struct kapi_workqueue;
/*
 * [sleep] A queue whose works run concurrently, at most `most` of them on each CPU (0: as many as the host likes). NULL: no
 * memory.
 */
struct kapi_workqueue *kapi_workqueue_create(const char *name, unsigned int most) KAPI_NOEXCEPT;
/*
 * [sleep] As above, but no thread is kept for it: where there are many queues. When the machine has no memory for another thread
 * its works wait for that, so nothing that frees memory may need them: a work of a queue of the other kind neither destroys such
 * a queue nor cancels a work that runs there.
 */
struct kapi_workqueue *kapi_workqueue_create_cheap(const char *name, unsigned int most) KAPI_NOEXCEPT;
/* [sleep] Waits for what is queued, then frees. Not from one of its works. */
void kapi_workqueue_destroy(struct kapi_workqueue *queue) KAPI_NOEXCEPT;

/* Not on the stack: a debugging host keeps an account of works and does not let them vanish. */
struct kapi_work {
	unsigned long opaque[KAPI_SIZE_WORK / sizeof(unsigned long)];
};
typedef void (*kapi_work_fn)(struct kapi_work *work);

void kapi_work_init(struct kapi_work *work, kapi_work_fn fn) KAPI_NOEXCEPT; /* [any] */
/* [any] Runs work after delay_ns (0: at once). Does nothing and returns 0 when it is already pending or is being
 * cancelled, else 1. */
int kapi_work_queue(struct kapi_workqueue *queue, struct kapi_work *work, kapi_u64 delay_ns) KAPI_NOEXCEPT;
/* [any] As above, but when already pending moves it to the new delay; 1 when it was pending. While the work is being
 * cancelled nothing is queued and the result is either (1 on 6.1, 0 on 6.12): a caller that counts references by it
 * makes sure that this cannot be. */
int kapi_work_mod(struct kapi_workqueue *queue, struct kapi_work *work, kapi_u64 delay_ns) KAPI_NOEXCEPT;
/* [any] Not pending when it returns (unless queued anew), but may be running; 1 when it was pending. */
int kapi_work_cancel(struct kapi_work *work) KAPI_NOEXCEPT;
/* [sleep] Neither pending nor running when it returns (unless queued anew); 1 when it was pending. Not from the work
 * itself. */
int kapi_work_cancel_sync(struct kapi_work *work) KAPI_NOEXCEPT;

KAPI_END
#endif
