// SPDX-License-Identifier: GPL-2.0
#include "genetlink.h"
#include "info-paths.h"
#include "program.h"

#include "../include/uapi/hawser_netlink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const peers[] = { "unknown", "hawser", "foreign" };
static const char *const states[] = { "down", "connecting", "up", "closing" };
static const char *const reasons[] = { "wanted", "established", "accepted", "refused", "heard", "lost", "replaced", "dead",
				       "unanswered", "unused", "renewed", "removed", "closed" };
static const char *const changes[] = { "attached", "ended", "detached" };

#define NAME(names, number) ((number) < sizeof(names) / sizeof((names)[0]) ? (names)[number] : "?")

/* ---- from attributes */

void path_read_connection(struct attributes all, struct path *path)
{
	const struct nlattr *transport = attribute_find(all, HAWSER_RDS_CONNECTION_TRANSPORT);
	const char *name;
	size_t bytes;

	*path = (struct path){ 0 };
	attribute_address(all, HAWSER_RDS_CONNECTION_LOCAL, &path->local);
	attribute_address(all, HAWSER_RDS_CONNECTION_REMOTE, &path->remote);
	if (transport) {
		name = attribute_bytes(transport, &bytes);
		snprintf(path->transport, sizeof(path->transport), "%.*s", (int)bytes, name);
	}
	path->tos = (unsigned int)attribute_number(all, HAWSER_RDS_CONNECTION_TOS, 0);
	path->peer = attribute_number(all, HAWSER_RDS_CONNECTION_PEER, 0);
	if (path->remote.any.sa_family == AF_INET6)
		path->remote.ipv6.sin6_scope_id = (uint32_t)attribute_number(all, HAWSER_RDS_CONNECTION_INTERFACE, 0);
}

void path_read(struct attributes of, struct path *path)
{
	const struct nlattr *latency = attribute_find(of, HAWSER_RDS_PATH_LATENCY);
	const void *numbers = NULL;
	size_t bytes = 0;

	if (latency)
		numbers = attribute_bytes(latency, &bytes);
	latency_read(numbers, bytes, &path->latency);
	path->index = (unsigned int)attribute_number(of, HAWSER_RDS_PATH_INDEX, 0);
	path->state = attribute_number(of, HAWSER_RDS_PATH_STATE, 0);
	path->reason = attribute_number(of, HAWSER_RDS_PATH_REASON, 0);
	path->from = attribute_number(of, HAWSER_RDS_PATH_FROM, 0);
	path->age_ms = attribute_number(of, HAWSER_RDS_PATH_AGE_MS, 0);
	path->next_tx = attribute_number(of, HAWSER_RDS_PATH_NEXT_TX, 0);
	path->next_rx = attribute_number(of, HAWSER_RDS_PATH_NEXT_RX, 0);
	path->tx_bytes = attribute_number(of, HAWSER_RDS_PATH_TX_BYTES, 0);
	path->rx_bytes = attribute_number(of, HAWSER_RDS_PATH_RX_BYTES, 0);
	path->queued = attribute_number(of, HAWSER_RDS_PATH_QUEUED, 0);
	path->drops = attribute_number(of, HAWSER_RDS_PATH_DROPS, 0);
	path->retransmits = attribute_number(of, HAWSER_RDS_PATH_RETRANSMITS, 0);
	path->sending = attribute_number(of, HAWSER_RDS_PATH_SENDING, 0) != 0;
	path->has_rtt = attribute_find(of, HAWSER_RDS_PATH_RTT_US) != NULL;
	path->rtt_us = attribute_number(of, HAWSER_RDS_PATH_RTT_US, 0);
}

const struct nlattr *path_next(struct attributes *left)
{
	const struct nlattr *attribute;

	while ((attribute = attribute_next(left))) {
		if ((attribute->nla_type & NLA_TYPE_MASK) == HAWSER_RDS_CONNECTION_PATH)
			break;
	}
	return attribute;
}

static void add_paths(void *context, uint8_t command, struct attributes attributes)
{
	const struct nlattr *found;
	struct path path;

	if (command != HAWSER_CMD_RDS_CONNECTION_GET)
		return;
	path_read_connection(attributes, &path);
	if (!info_view.all_families && path.local.any.sa_family == AF_INET6)
		return;
	while ((found = path_next(&attributes))) {
		path_read(attribute_nested(found), &path);
		info_add_row(context)->path = path;
	}
}

bool paths_read(struct info_rows *rows)
{
	return info_read_reports(HAWSER_CMD_RDS_CONNECTION_GET, add_paths, rows, "paths");
}

/* ---- the table */

const char *path_peer_name(const struct path *path)
{
	return NAME(peers, path->peer);
}

const char *path_reason_name(const struct path *path)
{
	return NAME(reasons, path->reason);
}

void paths_print_header(void)
{
	printf("\nPaths:\n%*s %*s %3s %4s %-10s %-11s %10s %-8s %8s %14s %14s %8s %6s %8s\n", info_address_width(), "LocalAddr",
	       info_address_width(), "RemoteAddr", "Tos", "Path", "State", "Reason", "Age", "Peer", "Queued", "TxBytes",
	       "RxBytes", "TxAgain", "Drops", "RTT");
}

void paths_print(const union row *row)
{
	const struct path *path = &row->path;
	char local[RDS_ADDRESS_TEXT_SIZE], remote[RDS_ADDRESS_TEXT_SIZE], rtt[24] = "-";

	if (path->has_rtt)
		snprintf(rtt, sizeof(rtt), "%" PRIu64 "us", path->rtt_us);
	printf("%*s %*s %3u %4u %-10s %-11s %9.1fs %-8s %8" PRIu64 " %14" PRIu64 " %14" PRIu64 " %8" PRIu64 " %6" PRIu64 " %8s\n",
	       info_address_width(), rds_address_format(&path->local, local), info_address_width(),
	       rds_address_format(&path->remote, remote), path->tos, path->index, NAME(states, path->state),
	       NAME(reasons, path->reason), (double)path->age_ms / 1000, NAME(peers, path->peer), path->queued, path->tx_bytes,
	       path->rx_bytes, path->retransmits, path->drops, rtt);
	if (info_view.verbose)
		latency_print(stdout, &path->latency);
}

static void write_names(struct json *json, const struct path *path)
{
	char text[RDS_ADDRESS_TEXT_SIZE];

	json_string(json, "local_address", rds_address_format(&path->local, text));
	json_string(json, "remote_address", rds_address_format(&path->remote, text));
	json_string(json, "transport", path->transport);
	json_unsigned(json, "tos", path->tos);
	json_string(json, "peer", NAME(peers, path->peer));
	json_unsigned(json, "path", path->index);
	json_string(json, "state", NAME(states, path->state));
	json_string(json, "reason", NAME(reasons, path->reason));
}

void paths_write(struct json *json, const union row *row)
{
	const struct path *path = &row->path;

	write_names(json, path);
	json_unsigned(json, "age_ms", path->age_ms);
	json_unsigned(json, "next_tx", path->next_tx);
	json_unsigned(json, "next_rx", path->next_rx);
	json_unsigned(json, "tx_bytes", path->tx_bytes);
	json_unsigned(json, "rx_bytes", path->rx_bytes);
	json_unsigned(json, "queued", path->queued);
	json_unsigned(json, "drops", path->drops);
	json_unsigned(json, "retransmits", path->retransmits);
	if (path->has_rtt)
		json_unsigned(json, "rtt_us", path->rtt_us);
	else
		json_null(json, "rtt_us");
	latency_write(json, "latency", &path->latency);
}

/* ---- events */

static const char *clock_text(char text[16])
{
	time_t now = time(NULL);
	struct tm parts;

	strftime(text, 16, "%H:%M:%S", localtime_r(&now, &parts));
	return text;
}

static void open_event(struct json *json, const char *object)
{
	json_start(json, stdout);
	json_open_object(json, NULL);
	json_unsigned(json, "time", (uint64_t)time(NULL));
	json_string(json, "object", object);
}

static void print_event(const struct path *path)
{
	char local[RDS_ADDRESS_TEXT_SIZE], remote[RDS_ADDRESS_TEXT_SIZE], clock[16];

	printf("%s %s -> %s tos %u path %u: %s -> %s (%s)\n", clock_text(clock), rds_address_format(&path->local, local),
	       rds_address_format(&path->remote, remote), path->tos, path->index, NAME(states, path->from),
	       NAME(states, path->state), NAME(reasons, path->reason));
}

static void write_event(const struct path *path)
{
	struct json json;

	open_event(&json, "rds-path");
	write_names(&json, path);
	json_string(&json, "from", NAME(states, path->from));
	json_close(&json);
}

/* A connection of KCM. */
struct kcm_event {
	uint64_t mux, id, change, local_port, remote_port;
	int error;
	char local[RDS_ADDRESS_TEXT_SIZE], remote[RDS_ADDRESS_TEXT_SIZE];
};

static struct kcm_event read_kcm_event(struct attributes all)
{
	struct kcm_event event = {
		.mux = attribute_number(all, HAWSER_KCM_CONNECTION_MUX, 0),
		.id = attribute_number(all, HAWSER_KCM_CONNECTION_ID, 0),
		.change = attribute_number(all, HAWSER_KCM_CONNECTION_CHANGE, UINT64_MAX),
		.local_port = attribute_number(all, HAWSER_KCM_CONNECTION_LOCAL_PORT, 0),
		.remote_port = attribute_number(all, HAWSER_KCM_CONNECTION_REMOTE_PORT, 0),
		.error = (int)attribute_number(all, HAWSER_KCM_CONNECTION_ERROR, 0),
	};
	union rds_address address;

	attribute_address(all, HAWSER_KCM_CONNECTION_LOCAL, &address);
	rds_address_format(&address, event.local);
	attribute_address(all, HAWSER_KCM_CONNECTION_REMOTE, &address);
	rds_address_format(&address, event.remote);
	return event;
}

static void print_kcm_event(const struct kcm_event *event)
{
	char clock[16], why[64] = "";

	if (event->error)
		snprintf(why, sizeof(why), " (%s)", strerror(event->error));
	printf("%s %s port %" PRIu64 " -> %s port %" PRIu64 " kcm mux %" PRIu64 " connection %" PRIu64 ": %s%s\n",
	       clock_text(clock), event->local, event->local_port, event->remote, event->remote_port, event->mux, event->id,
	       NAME(changes, event->change), why);
}

static void write_kcm_event(const struct kcm_event *event)
{
	struct json json;

	open_event(&json, "kcm-connection");
	json_unsigned(&json, "mux", event->mux);
	json_unsigned(&json, "id", event->id);
	json_string(&json, "local_address", event->local);
	json_unsigned(&json, "local_port", event->local_port);
	json_string(&json, "remote_address", event->remote);
	json_unsigned(&json, "remote_port", event->remote_port);
	json_string(&json, "change", NAME(changes, event->change));
	json_unsigned(&json, "error", (uint64_t)event->error);
	json_close(&json);
}

static void show_event(void *context, uint8_t command, struct attributes attributes)
{
	const bool *as_json = context;
	const struct nlattr *found;
	struct kcm_event kcm;
	struct path path;

	if (command == HAWSER_CMD_KCM_CONNECTION_CHANGED) {
		kcm = read_kcm_event(attributes);
		if (*as_json)
			write_kcm_event(&kcm);
		else
			print_kcm_event(&kcm);
	}
	if (command != HAWSER_CMD_RDS_PATH_CHANGED)
		return;
	path_read_connection(attributes, &path);
	found = path_next(&attributes);
	if (!found)
		return;
	path_read(attribute_nested(found), &path);
	if (*as_json)
		write_event(&path);
	else
		print_event(&path);
}

bool paths_follow(bool as_json)
{
	struct genetlink link;
	int error = genetlink_open(&link, HAWSER_FAMILY_NAME);

	if (!error) {
		error = genetlink_join(&link, HAWSER_FAMILY_NAME, HAWSER_MCGRP_EVENTS);
		if (error)
			genetlink_close(&link);
	}
	if (error == -ENOENT)
		return false;
	if (error)
		die_error(error, "opening generic netlink");
	for (;;) {
		error = genetlink_wait(&link, show_event, &as_json);
		flush_output();
		if (error == -ENOBUFS)
			warn("events were lost");
		else if (error)
			die_error(error, "waiting for events");
	}
}
