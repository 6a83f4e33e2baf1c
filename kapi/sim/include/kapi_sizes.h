/* SPDX-License-Identifier: GPL-2.0 */
/* Sizes of the opaque kapi structs in the simulator; kapi/sim checks that its own structs fit. */
#ifndef KAPI_SIZES_H
#define KAPI_SIZES_H

#define KAPI_SIZE_LOCK_KEY 8
#define KAPI_SIZE_SPIN 32
#define KAPI_SIZE_RCU 32
#define KAPI_SIZE_WAITQ 32
#define KAPI_SIZE_WAITER 48
#define KAPI_SIZE_WORK 32
#define KAPI_SIZE_MSG_MARK 32
#define KAPI_SIZE_MAP 32
#define KAPI_SIZE_WR 8
#define KAPI_SIZE_RECV_WR 8

#endif
