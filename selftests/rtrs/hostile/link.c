// SPDX-License-Identifier: GPL-2.0
#include "hostile.h"

#include <arpa/inet.h>
#include <fcntl.h>

#define MAX_WR 512
#define BACKLOG 64

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;

/* Connections that peers have asked for, oldest first. */
static struct {
	struct rdma_cm_id *id;
	uint8_t offered[256];
	size_t offered_bytes;
} asked[BACKLOG];
static int asked_count;

void link_start(void)
{
	int count;

	NEED(ibv_get_device_list(&count) && count > 0);
	channel = rdma_create_event_channel();
	NEED(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
}

static struct sockaddr_in address_of(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	NEED(inet_pton(AF_INET, address, &to.sin_addr) == 1);
	return to;
}

/* ---- events */

static void keep_asked(struct rdma_cm_event *event)
{
	NEED(asked_count < BACKLOG);
	asked[asked_count].id = event->id;
	event->id->context = NULL;
	asked[asked_count].offered_bytes = event->param.conn.private_data_len;
	memcpy(asked[asked_count].offered, event->param.conn.private_data, event->param.conn.private_data_len);
	asked_count++;
}

static void event_of(struct link *link, struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		link->state = ASKED;
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		link->state = ESTABLISHED;
		break;
	case RDMA_CM_EVENT_REJECTED:
		link->state = REJECTED;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default:
		link->state = ENDED;
		return;
	}
	if (!event->param.conn.private_data_len)
		return; /* a server keeps what it was asked for */
	link->offered_bytes = event->param.conn.private_data_len;
	memcpy(link->offered, event->param.conn.private_data, link->offered_bytes);
}

static void pump_events(void)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(channel, &event)) {
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			keep_asked(event);
		else if (event->id->context)
			event_of(event->id->context, event);
		NEED(!rdma_ack_cm_event(event));
	}
}

static bool post_receive(struct link *link, uint64_t slot)
{
	struct ibv_sge sge = {(uintptr_t)link->memory + slot * SLOT_BYTES, SLOT_BYTES, link->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return !ibv_post_recv(link->id->qp, &wr, &bad);
}

static void completed(struct link *link, const struct ibv_wc *wc)
{
	bool is_receive = wc->wr_id < SLOTS;

	if (!is_receive)
		link->posted--;
	if (wc->status != IBV_WC_SUCCESS) {
		if (!is_receive)
			link->failed++;
		return;
	}
	if (!is_receive)
		return;
	link->received++;
	link->length = wc->opcode == IBV_WC_RECV ? wc->byte_len : 0;
	memcpy(link->last, link->memory + wc->wr_id * SLOT_BYTES, link->length);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		link->imm = be32toh(wc->imm_data);
	post_receive(link, wc->wr_id);
}

void link_pump(struct link *link)
{
	struct ibv_wc wc;

	pump_events();
	while (link->cq && ibv_poll_cq(link->cq, 1, &wc) > 0)
		completed(link, &wc);
}

static bool becomes(struct link *link, bool (*test)(const struct link *link), int ms)
{
	return WAIT_UNTIL(ms, (link_pump(link), test(link)));
}

/* ---- making one */

static bool make_queues(struct link *link)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					.cap = {MAX_WR, SLOTS, 1, 1, 0}};
	size_t bytes = SLOTS * SLOT_BYTES + SCRATCH_BYTES;

	link->pd = ibv_alloc_pd(link->id->verbs);
	link->cq = ibv_create_cq(link->id->verbs, MAX_WR + SLOTS + 1, NULL, NULL, 0);
	link->memory = aligned_alloc(4096, bytes);
	if (!link->pd || !link->cq || !link->memory)
		return false;
	link->scratch = link->memory + SLOTS * SLOT_BYTES;
	memset(link->memory, 0, bytes);
	link->mr = ibv_reg_mr(link->pd, link->memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	attr.send_cq = attr.recv_cq = link->cq;
	if (!link->mr || rdma_create_qp(link->id, link->pd, &attr))
		return false;
	for (uint64_t slot = 0; slot < SLOTS; slot++)
		if (!post_receive(link, slot))
			return false;
	return true;
}

static bool is_asked(const struct link *link) { return link->state != WAITING; }
static bool is_decided(const struct link *link) { return link->state != ASKED; }
static bool has_ended(const struct link *link) { return link->state == ENDED || link->state == REJECTED; }
static bool has_completed(const struct link *link) { return link->posted <= 0; }

enum state link_ask(struct link *link, uint16_t port, const void *data, size_t length)
{
	struct sockaddr_in to = address_of(port);
	struct rdma_conn_param options = {.private_data = data, .private_data_len = (uint8_t)length, .retry_count = 7,
					  .rnr_retry_count = 7};

	memset(link, 0, sizeof(*link));
	NEED(!rdma_create_id(channel, &link->id, link, RDMA_PS_TCP));
	NEED(!rdma_resolve_addr(link->id, NULL, (struct sockaddr *)&to, 5000));
	NEED(becomes(link, is_asked, SOON_MS) && link->state == ASKED);
	link->state = WAITING;
	NEED(!rdma_resolve_route(link->id, 5000));
	NEED(becomes(link, is_asked, SOON_MS) && link->state == ASKED);
	NEED(make_queues(link));
	NEED(!rdma_connect(link->id, &options));
	becomes(link, is_decided, SOON_MS);
	return link->state;
}

void link_listen(uint16_t port)
{
	struct sockaddr_in at = address_of(port);

	NEED(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	NEED(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, BACKLOG));
}

bool link_next(struct link *link, int ms)
{
	memset(link, 0, sizeof(*link));
	if (!WAIT_UNTIL(ms, (pump_events(), asked_count > 0)))
		return false;
	link->id = asked[0].id;
	link->id->context = link;
	link->state = ASKED;
	memcpy(link->offered, asked[0].offered, sizeof(link->offered));
	link->offered_bytes = asked[0].offered_bytes;
	memmove(&asked[0], &asked[1], (size_t)--asked_count * sizeof(asked[0]));
	return true;
}

bool link_accept(struct link *link, const void *data, size_t length)
{
	struct rdma_conn_param options = {.private_data = data, .private_data_len = (uint8_t)length, .rnr_retry_count = 7};

	/* Its client may have gone. */
	return make_queues(link) && !rdma_accept(link->id, &options) && becomes(link, is_decided, SOON_MS) &&
	       link->state == ESTABLISHED;
}

void link_reject(struct link *link, const void *data, size_t length)
{
	rdma_reject(link->id, data, (uint8_t)length);
	link_close(link, false);
}

/* ---- sending */

static bool post(struct link *link, struct ibv_send_wr *wr, const void *from, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)from, length, link->mr->lkey};
	struct ibv_send_wr *bad;

	wr->wr_id = SLOTS;
	wr->sg_list = &sge;
	wr->num_sge = length > 0;
	if (ibv_post_send(link->id->qp, wr, &bad))
		return false;
	link->posted++;
	return true;
}

bool link_send(struct link *link, const void *from, uint32_t length)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	return post(link, &wr, from, length);
}

bool link_send_imm(struct link *link, const void *from, uint32_t length, uint32_t imm)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(imm)};

	return post(link, &wr, from, length);
}

bool link_send_invalidate(struct link *link, uint32_t key)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = key};

	return post(link, &wr, NULL, 0);
}

bool link_write(struct link *link, const void *from, uint32_t length, uint64_t to, uint32_t key, int64_t imm)
{
	struct ibv_send_wr wr = {.opcode = imm < 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htobe32((uint32_t)imm)};

	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = key;
	return post(link, &wr, from, length);
}

/* ---- waiting, and the end */

bool link_ends(struct link *link, int ms) { return becomes(link, has_ended, ms); }
bool link_completes(struct link *link, int ms) { return becomes(link, has_completed, ms); }

bool link_receives(struct link *link, int count, int ms)
{
	return WAIT_UNTIL(ms, (link_pump(link), link->received >= count));
}

void link_close(struct link *link, bool polite)
{
	if (!link->id)
		return;
	if (polite)
		rdma_disconnect(link->id);
	pump_events();
	if (link->id->qp)
		rdma_destroy_qp(link->id);
	link->id->context = NULL;
	if (link->mr)
		ibv_dereg_mr(link->mr);
	if (link->cq)
		ibv_destroy_cq(link->cq);
	if (link->pd)
		ibv_dealloc_pd(link->pd);
	rdma_destroy_id(link->id);
	free(link->memory);
	memset(link, 0, sizeof(*link));
}
