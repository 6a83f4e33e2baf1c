/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoints of RTRS: see trace.h. */
#ifndef KAPI_TRACE_RTRS_FILE
#define KAPI_TRACE_RTRS_FILE

#include <kapi/trace.h>

KAPI_BEGIN

/* The addresses of a path, as in kapi_addr. */
struct kapi_trace_rtrs_ends {
	const kapi_u8 *local, *remote;
};

/* What is asked for in a chunk of the server: bytes of data and of the user's message together. */
struct kapi_trace_rtrs_io {
	kapi_u32 chunk;
	kapi_u32 length;
	int is_read;
	int error;           /* positive; of DONE and ANSWER */
	kapi_u64 latency_ns; /* of DONE: since it was sent over this path */
};
/*
 * [any] CLIENT_REQUEST: it was sent. CLIENT_DONE: it has ended there, with an answer or with the path. SERVER_REQUEST: it is
 * given to the server's user. SERVER_ANSWER: the user has answered, or it is refused without the user.
 */
void kapi_trace_rtrs_request(enum kapi_trace event, const struct kapi_trace_rtrs_ends *ends,
			     const struct kapi_trace_rtrs_io *request) KAPI_NOEXCEPT;

/* [any] CLIENT_PATH, SERVER_PATH: a path changes its state. The names are constants; error: why its last link ended, or 0. */
void kapi_trace_rtrs_path(enum kapi_trace event, const struct kapi_trace_rtrs_ends *ends, const char *from, const char *to,
			  int error) KAPI_NOEXCEPT;

KAPI_END
#endif
