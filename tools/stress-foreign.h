/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_STRESS_FOREIGN_H
#define HAWSER_TOOLS_STRESS_FOREIGN_H

/*
 * The rds-stress of rds-tools at the other side (@options->foreign). On the control connection it has a structure with the
 * options, one byte each way when the tasks are ready, and the end of the connection when the active side has had enough.
 * Messages of one task to another are numbered, requests and acknowledgements together. The header of a request says which
 * operation of RDMA goes with its acknowledgement, which repeats that. It knows IPv4 alone. All of it is in rds-stress.c of
 * rds-tools, 2.0.6 and 2.0.7.
 */

#include "stress-control.h"
#include "stress-exchange.h"

/* A message has a header of so many bytes at least; that of 2.0.6 is three bytes shorter. */
#define STRESS_FOREIGN_HEADER_SIZE 63

/* The active side's: makes @options such as the other side takes, and sends them. Dies when that is not possible. */
void stress_foreign_send_options(struct stress_control *control, struct stress_options *options);

/* The passive side's: what the other side has sent, of which nothing has been read. Dies when we cannot do it. */
void stress_foreign_take_options(struct stress_control *control, struct stress_options *options);

/* Our tasks are ready: returns when those of the other side are. */
void stress_foreign_start(struct stress_control *control, const struct stress_options *options);

/* Waits at most @timeout_ms. True: the other side has ended the connection. */
bool stress_foreign_has_ended(struct stress_control *control, int timeout_ms);

/* Writes the header of the next message to @peer. It is the last one until stress_foreign_sent(). */
void stress_foreign_write(const struct stress_options *options, const struct peer *peer, const struct stress_header *header,
			  void *message);
void stress_foreign_sent(const struct stress_options *options, struct peer *peer, const struct stress_header *header);

/* Parses a header. False: it is none that such a task sends. @number: of the message; @place: of its request, below the depth. */
bool stress_foreign_read(const struct stress_options *options, struct stress_header *header, const void *message, size_t bytes,
			 uint32_t *number, uint16_t *place);

/* What every message has behind its header, with -v; as stress_pattern_fill() and stress_pattern_check(). */
void stress_foreign_fill(void *data, size_t bytes);
size_t stress_foreign_check(const void *data, size_t bytes);

/* What the first buffer of an operation of RDMA has, with -v: the same eight bytes all over. */
void stress_foreign_fill_rdma(uint64_t pattern, void *data, size_t bytes);
bool stress_foreign_check_rdma(uint64_t pattern, const void *data, size_t bytes);

#endif
