/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What hawser's RDS offers beyond <linux/rds.h>: a socket option and a control message of level SOL_RDS, for many messages
 * in one call. The kernel's own RDS answers ENOPROTOOPT to the option and EINVAL to the control message.
 * Documentation/networking/rds.rst explains them.
 */
#ifndef HAWSER_UAPI_RDS_H
#define HAWSER_UAPI_RDS_H

/* Socket option, an int that can be read back. 1: recvmsg() returns as many whole messages as it has room for. */
#define RDS_RECV_LENGTHS 32

/*
 * Control message, an array of __u32: the lengths of messages that lie one behind the other in the buffer.
 * Received, when RDS_RECV_LENGTHS is 1, with every message or run of messages: their sum is what recvmsg() returned. All are of
 * the sender that msg_name names, and nothing came between them. A run ends before a message that does not fit in whole, that
 * was sent with an RDMA operation or cookie, or whose length has no room; after 64 messages; and after the first message
 * if the socket has time stamps or receive traces, or with MSG_PEEK. It may end earlier (other threads that read, memory that
 * faults): that it is short does not mean that nothing waits. A first message that is longer than the buffer is cut
 * off as without the option (MSG_TRUNC). Without room for one length there is one message, with MSG_CTRUNC.
 * Given to sendmsg(): each is a message of its own to the same destination. At most RDS_MOST_LENGTHS, none of them 0, and their
 * sum is the number of bytes (EINVAL). Not together with other control messages of RDS or MSG_ZEROCOPY (EINVAL). sendmsg()
 * returns the bytes of the messages that were taken: of at least one, or an error.
 */
#define RDS_CMSG_LENGTHS 32
#define RDS_MOST_LENGTHS 1024

#endif
