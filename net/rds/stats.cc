// SPDX-License-Identifier: GPL-2.0
#include "stats.h"

namespace rds {

const char* const stat_names[] = {
    "conn_reset", "recv_drop_bad_checksum", "recv_drop_old_seq", "recv_drop_no_sock", "recv_drop_dead_sock",
    "recv_deliver_raced", "recv_delivered", "recv_queued", "recv_immediate_retry", "recv_delayed_retry",
    "recv_ack_required", "recv_rdma_bytes", "recv_ping", "send_queue_empty", "send_queue_full", "send_lock_contention",
    "send_lock_queue_raced", "send_immediate_retry", "send_delayed_retry", "send_drop_acked", "send_ack_required",
    "send_queued", "send_rdma", "send_rdma_bytes", "send_pong", "page_remainder_hit", "page_remainder_miss",
    "copy_to_user", "copy_from_user", "cong_update_queued", "cong_update_received", "cong_send_error",
    "cong_send_blocked", "recv_bytes_added_to_sock", "recv_bytes_freed_fromsock", "send_stuck_rm",
    "recv_garbage", "recv_stalled", "recv_left", "recv_drop_pong", "cong_refresh", "peer_restarted", "send_drop_restart",
    "path_dead_peer",
};
static_assert(sizeof(stat_names) / sizeof(stat_names[0]) == static_cast<unsigned>(Stat::count));

} // namespace rds
