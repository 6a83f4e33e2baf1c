// SPDX-License-Identifier: GPL-2.0
#include "info-peers.h"

#include "info-paths.h"

#include "../include/uapi/hawser_netlink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_of(const struct path *path, const struct peer_row *peer)
{
	return !memcmp(&path->local, &peer->sum.local, sizeof(path->local)) &&
	       !memcmp(&path->remote, &peer->sum.remote, sizeof(path->remote)) && path->tos == peer->sum.tos &&
	       !strcmp(path->transport, peer->sum.transport);
}

/* State, reason and age are those of the path that changed last; the round-trip time is the longest. */
static void add(struct peer_row *peer, const struct path *path)
{
	struct path *sum = &peer->sum;

	peer->paths++;
	peer->up += path->state == HAWSER_RDS_UP;
	if (path->age_ms < sum->age_ms) {
		sum->state = path->state;
		sum->reason = path->reason;
		sum->age_ms = path->age_ms;
	}
	sum->queued += path->queued;
	sum->tx_bytes += path->tx_bytes;
	sum->rx_bytes += path->rx_bytes;
	sum->retransmits += path->retransmits;
	sum->drops += path->drops;
	sum->has_rtt |= path->has_rtt;
	if (path->has_rtt && path->rtt_us > sum->rtt_us)
		sum->rtt_us = path->rtt_us;
}

void peers_collect(const struct info_rows *paths, struct info_rows *peers)
{
	struct peer_row *peer = NULL;
	size_t i;

	/* Paths of a connection follow each other. */
	*peers = (struct info_rows){ 0 };
	for (i = 0; i < paths->count; i++) {
		const struct path *path = &paths->rows[i].path;

		if (peer && is_of(path, peer)) {
			add(peer, path);
			continue;
		}
		peer = &info_add_row(peers)->peer;
		*peer = (struct peer_row){ .sum = *path, .paths = 1, .up = path->state == HAWSER_RDS_UP };
	}
}

bool peers_read(struct info_rows *rows)
{
	struct info_rows paths;

	*rows = (struct info_rows){ 0 };
	if (!paths_read(&paths))
		return false;
	peers_collect(&paths, rows);
	free(paths.rows);
	return true;
}

void peers_print_header(void)
{
	printf("\nPeers:\n%*s %*s %3s %-10s %-8s %5s %-11s %10s %8s %14s %14s %8s %6s %8s\n", info_address_width(), "LocalAddr",
	       info_address_width(), "RemoteAddr", "Tos", "Transport", "Peer", "Up", "Reason", "Age", "Queued", "TxBytes",
	       "RxBytes", "TxAgain", "Drops", "RTT");
}

void peers_print(const union row *row)
{
	const struct path *sum = &row->peer.sum;
	char up[16], rtt[24] = "-";

	snprintf(up, sizeof(up), "%u/%u", row->peer.up, row->peer.paths);
	if (sum->has_rtt)
		snprintf(rtt, sizeof(rtt), "%" PRIu64 "us", sum->rtt_us);
	info_print_address(&sum->local);
	info_print_address(&sum->remote);
	printf("%3u %-10s %-8s %5s %-11s %9.1fs %8" PRIu64 " %14" PRIu64 " %14" PRIu64 " %8" PRIu64 " %6" PRIu64 " %8s\n",
	       sum->tos, sum->transport, path_peer_name(sum), up, path_reason_name(sum), (double)sum->age_ms / 1000, sum->queued,
	       sum->tx_bytes, sum->rx_bytes, sum->retransmits, sum->drops, rtt);
}

void peers_write(struct json *json, const union row *row)
{
	const struct path *sum = &row->peer.sum;

	info_write_address(json, "local_address", &sum->local);
	info_write_address(json, "remote_address", &sum->remote);
	json_string(json, "transport", sum->transport);
	json_unsigned(json, "tos", sum->tos);
	json_string(json, "peer", path_peer_name(sum));
	json_unsigned(json, "paths", row->peer.paths);
	json_unsigned(json, "paths_up", row->peer.up);
	json_string(json, "reason", path_reason_name(sum));
	json_unsigned(json, "age_ms", sum->age_ms);
	json_unsigned(json, "queued", sum->queued);
	json_unsigned(json, "tx_bytes", sum->tx_bytes);
	json_unsigned(json, "rx_bytes", sum->rx_bytes);
	json_unsigned(json, "retransmits", sum->retransmits);
	json_unsigned(json, "drops", sum->drops);
	if (sum->has_rtt)
		json_unsigned(json, "rtt_us", sum->rtt_us);
	else
		json_null(json, "rtt_us");
}
