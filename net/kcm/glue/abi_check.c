// SPDX-License-Identifier: GPL-2.0
/* Core's definitions of the interface to programs agree with the headers that programs include. */
#include <linux/kcm.h>
#include <linux/net.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/stddef.h>

#include <uapi/hawser_kcm.h>

#include "../uapi.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is " #b)
#define SAME_FIELD(a, b, field)                                                                                        \
	_Static_assert(offsetof(struct a, field) == offsetof(struct b, field) &&                                       \
		       sizeof(((struct a *)0)->field) == sizeof(((struct b *)0)->field), #a "." #field)

SAME(KCM_ABI_SOCK_DGRAM, SOCK_DGRAM);
SAME(KCM_ABI_SOCK_SEQPACKET, SOCK_SEQPACKET);
SAME(KCM_ABI_SOL_KCM, SOL_KCM);
SAME(KCM_ABI_MSG_PEEK, MSG_PEEK);
SAME(KCM_ABI_MSG_TRUNC, MSG_TRUNC);
SAME(KCM_ABI_MSG_DONTWAIT, MSG_DONTWAIT);
SAME(KCM_ABI_MSG_EOR, MSG_EOR);
SAME(KCM_ABI_MSG_WAITALL, MSG_WAITALL);
SAME(KCM_ABI_MSG_MORE, MSG_MORE);
SAME(KCM_ABI_MSG_BATCH, MSG_BATCH);
SAME(KCM_ABI_ATTACH, SIOCKCMATTACH);
SAME(KCM_ABI_UNATTACH, SIOCKCMUNATTACH);
SAME(KCM_ABI_CLONE, SIOCKCMCLONE);
SAME(sizeof(struct kcm_abi_attach), sizeof(struct kcm_attach));
SAME_FIELD(kcm_abi_attach, kcm_attach, fd);
SAME_FIELD(kcm_abi_attach, kcm_attach, bpf_fd);
SAME(sizeof(struct kcm_abi_unattach), sizeof(struct kcm_unattach));
SAME(sizeof(struct kcm_abi_clone), sizeof(struct kcm_clone));
SAME(KCM_ABI_RECV_DISABLE, KCM_RECV_DISABLE);

SAME(KCM_ABI_ERRORS, KCM_ERRORS);
SAME(KCM_ABI_RECV_CONNECTION, KCM_RECV_CONNECTION);
SAME(KCM_ABI_MAX_MESSAGE, KCM_MAX_MESSAGE);
SAME(KCM_ABI_STEERING, KCM_STEERING);
SAME(KCM_ABI_STATS, KCM_STATS);
SAME(KCM_ABI_ATTACHED, KCM_ATTACHED);
SAME(KCM_ABI_RECV_LENGTHS, KCM_RECV_LENGTHS);
SAME((int)KCM_ABI_STEER_ROUND_ROBIN, (int)KCM_STEER_ROUND_ROBIN);
SAME((int)KCM_ABI_STEER_LEAST_LOADED, (int)KCM_STEER_LEAST_LOADED);
SAME((int)KCM_ABI_STEER_CPU, (int)KCM_STEER_CPU);
SAME(KCM_ABI_CONNECTION, KCM_CONNECTION);
SAME(KCM_ABI_LENGTHS, KCM_LENGTHS);
SAME(sizeof(struct kcm_abi_connection), sizeof(struct kcm_connection));
SAME(sizeof(struct kcm_abi_cmsghdr), sizeof(struct cmsghdr));
SAME(sizeof(struct kcm_abi_attached), sizeof(struct kcm_attached));
SAME_FIELD(kcm_abi_attached, kcm_attached, fd);
SAME_FIELD(kcm_abi_attached, kcm_attached, id);
SAME((int)KCM_ABI_CONN_RX_STOPPED, (int)KCM_CONN_RX_STOPPED);
SAME((int)KCM_ABI_CONN_TX_STOPPED, (int)KCM_CONN_TX_STOPPED);
SAME((int)KCM_ABI_CONN_RESERVED, (int)KCM_CONN_RESERVED);
SAME((int)KCM_ABI_CONN_PAUSED, (int)KCM_CONN_PAUSED);
SAME(sizeof(struct kcm_abi_connection_stats), sizeof(struct kcm_connection_stats));
SAME_FIELD(kcm_abi_connection_stats, kcm_connection_stats, tx_reserved);
SAME_FIELD(kcm_abi_connection_stats, kcm_connection_stats, state);
SAME_FIELD(kcm_abi_connection_stats, kcm_connection_stats, error);
SAME_FIELD(kcm_abi_connection_stats, kcm_connection_stats, remote_port);
SAME_FIELD(kcm_abi_connection_stats, kcm_connection_stats, remote_addr);
