// SPDX-License-Identifier: GPL-2.0
#include "kcm-ledger.h"

#include "kcm-frame.h"
#include "program.h"

#include <string.h>

void ledger_start(struct ledger *ledger, const struct ledger_plan *plan, uint64_t first)
{
	*ledger = (struct ledger){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.plan = *plan,
		.first = first,
		.next = first,
		.last_answer_ns = now_ns(),
	};
}

/* Many small ones and few large ones; a request's size is derived from its number. */
static size_t size_of(const struct ledger *ledger, uint64_t number)
{
	uint64_t random = frame_mix(~number), span = ledger->plan.max_size - ledger->plan.min_size;

	return ledger->plan.min_size + (random >> 8) % ((span >> random % 8) + 1);
}

static bool may_begin_another(const struct ledger *ledger)
{
	return ledger->next - ledger->first < ledger->plan.requests &&
		(!ledger->plan.until_ns || now_ns() < ledger->plan.until_ns);
}

size_t ledger_next(struct ledger *ledger, void *buffer)
{
	uint64_t number, *slot;
	size_t size = 0;

	pthread_mutex_lock(&ledger->lock);
	number = ledger->next;
	slot = &ledger->slots[number % ledger->plan.window];
	if (!*slot && may_begin_another(ledger)) {
		size = size_of(ledger, number);
		*slot = number + 1;
		ledger->next++;
		ledger->counts.requests++;
		ledger->counts.request_bytes += size;
	}
	pthread_mutex_unlock(&ledger->lock);
	if (size)
		frame_request(buffer, size, number);
	return size;
}

/* Under the lock. The slot alone does not suffice: 0, which it has without a request, is also the number behind the largest. */
static bool is_outstanding(const struct ledger *ledger, uint64_t number)
{
	return number - ledger->first < ledger->next - ledger->first &&
		ledger->slots[number % ledger->plan.window] == number + 1;
}

/* Under the lock, for the first answer to @number. */
static void cross_off(struct ledger *ledger, uint64_t number, uint32_t worker, size_t size)
{
	ledger->slots[number % ledger->plan.window] = 0;
	ledger->last_answer_ns = now_ns();
	ledger->counts.answers++;
	ledger->counts.answer_bytes += size;
	if (!ledger->plan.in_order || worker >= LEDGER_WORKERS)
		return;
	if (ledger->last_of[worker] > number)
		ledger->counts.disordered++;
	ledger->last_of[worker] = number + 1;
}

void ledger_enter(struct ledger *ledger, const void *answer, size_t size, void *scratch)
{
	struct frame_head head;
	uint64_t number;
	uint32_t worker;
	bool right;

	memcpy(&head, answer, sizeof(head));
	number = frame_number(&head);
	worker = frame_worker(&head);
	right = size == size_of(ledger, number);
	if (right) {
		frame_request(scratch, size, number);
		frame_answer(scratch, size, worker);
		right = !memcmp(answer, scratch, size);
	}
	pthread_mutex_lock(&ledger->lock);
	if (!right)
		ledger->counts.damaged++;
	else if (!is_outstanding(ledger, number))
		ledger->counts.strange++;
	else
		cross_off(ledger, number, worker, size);
	pthread_mutex_unlock(&ledger->lock);
}

bool ledger_is_done(struct ledger *ledger)
{
	bool done;

	pthread_mutex_lock(&ledger->lock);
	done = ledger->counts.answers == ledger->counts.requests && !may_begin_another(ledger);
	pthread_mutex_unlock(&ledger->lock);
	return done;
}

uint64_t ledger_last_answer(struct ledger *ledger)
{
	uint64_t last;

	pthread_mutex_lock(&ledger->lock);
	last = ledger->last_answer_ns;
	pthread_mutex_unlock(&ledger->lock);
	return last;
}

struct ledger_counts ledger_result(struct ledger *ledger)
{
	ledger->counts.unanswered = ledger->counts.requests - ledger->counts.answers;
	return ledger->counts;
}
