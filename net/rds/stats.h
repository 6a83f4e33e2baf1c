// SPDX-License-Identifier: GPL-2.0
// Counters of a namespace, as RDS_INFO_COUNTERS shows them. Names and order are those of the kernel's own; those
// that only hawser has are at the end.
#pragma once

#include <hawser/base.h>

namespace rds {

enum class Stat : unsigned {
    conn_reset, recv_drop_bad_checksum, recv_drop_old_seq, recv_drop_no_sock, recv_drop_dead_sock, recv_deliver_raced,
    recv_delivered, recv_queued, recv_immediate_retry, recv_delayed_retry, recv_ack_required, recv_rdma_bytes,
    recv_ping, send_queue_empty, send_queue_full, send_lock_contention, send_lock_queue_raced, send_immediate_retry,
    send_delayed_retry, send_drop_acked, send_ack_required, send_queued, send_rdma, send_rdma_bytes, send_pong,
    page_remainder_hit, page_remainder_miss, copy_to_user, copy_from_user, cong_update_queued, cong_update_received,
    cong_send_error, cong_send_blocked, recv_bytes_added_to_sock, recv_bytes_freed_fromsock, send_stuck_rm,
    // only hawser's
    recv_garbage,       // streams closed because of data that no RDS peer sends
    recv_stalled,       // a path was not read because a socket's queue was at its hard limit
    recv_left,          // a message stayed in its stream until its program came for it
    recv_drop_pong,     // pings not answered because too many answers were waiting
    cong_refresh,       // requests for the map of a silent congested peer
    peer_restarted,     // a peer's module was loaded again
    send_drop_restart,  // messages given up because they went to a peer that restarted
    path_dead_peer,     // paths dropped because the peer stopped answering
    count
};

// count names of at most 31 characters.
extern const char* const stat_names[];

} // namespace rds
