/* SPDX-License-Identifier: GPL-2.0 */
/* TLS in the kernel, on both ends of a connection, with fixed test keys. */
#ifndef SELFTESTS_LIB_TLS_H
#define SELFTESTS_LIB_TLS_H

#include <linux/tls.h>
#include <stdbool.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

#define TLS_RECORD_ALERT 21

/** tls_start - makes TLS of TCP, without keys; 0 or -1 with errno */
int tls_start(int tcp);
/** tls_set_key - @way is TLS_TX or TLS_RX; both ends need the same @key for the same direction. 0 or -1 with errno */
int tls_set_key(int tcp, int way, int version, unsigned char key);
/** tls_secure - both ends of a connection, which must be fresh */
bool tls_secure(int one, int other, int version);
/** tls_has_readers - true if other kernel code can read records (since 6.12) */
bool tls_has_readers(void);

#endif
