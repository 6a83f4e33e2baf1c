/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between rds.ko and the modules of its transports: a C table of operations, and the functions rds.ko exports to them.
 * A change here changes the name of the symbol rds_transport_abi_*, so that modules of different builds do not load
 * together.
 *
 * A connection has up to RDS_MAX_PATHS paths. All operations on one path marked [worker] are called by that path's
 * worker, one at a time, in a sleeping context.
 *
 * There are two kinds of transport. One has send(): a stream of bytes, which the peer's host acknowledges by position. The
 * other has post(): whole messages, which the peer's RDS acknowledges by their number.
 */
#ifndef RDS_TRANSPORT_H
#define RDS_TRANSPORT_H

#include <kapi/memory.h>
#include <kapi/pages.h>
#include <kapi/types.h>

KAPI_BEGIN

#define RDS_MAX_PATHS 8
#define RDS_HEADER_SIZE 48
#define RDS_MAX_MESSAGE (1u << 20)

enum rds_transport_type {
	RDS_TRANSPORT_IB = 0,
	RDS_TRANSPORT_TCP = 2,
	RDS_TRANSPORT_LOOP = 3,
	RDS_TRANSPORT_TYPES = 4
};

enum rds_close_mode {
	RDS_CLOSE_GRACEFUL,  /* the peer is given time to close too */
	RDS_CLOSE_PEER_GONE, /* the peer has left the stream: only what it had sent before is received */
	RDS_CLOSE_AT_ONCE,   /* the connection ends: nothing is waited for, the stream is closed */
};

enum rds_closing {
	RDS_CLOSING,         /* the peer is waited for: call again at the next event or tick */
	RDS_CLOSE_UNREAD,    /* the same, and there is no room or memory for what is unread */
	RDS_CLOSED,
	RDS_CLOSED_COMPLETE, /* and all that the peer ever sent on the stream was received */
	RDS_CLOSED_KNOWN,    /* and the peer knows it, or cannot have another one: no attempt is made for its sake */
};

struct rds_net;
struct rds_conn;
struct rds_inc; /* a message being received */
struct rds_out; /* a message being sent */
struct rds_mr;  /* memory of a program that a device may use under a key */
struct kapi_pin;
struct kapi_rx;
struct kapi_rxbuf;

/* As the program is notified of it. */
enum rds_rdma_status {
	RDS_RDMA_SUCCESS = 0,
	RDS_RDMA_REMOTE_ERROR = 1, /* the peer has no such memory for us */
	RDS_RDMA_CANCELED = 2,     /* before it began */
	RDS_RDMA_DROPPED = 3,      /* the stream ended first: whether it was executed is not known */
	RDS_RDMA_OTHER_ERROR = 4,
};

/* Those behind RDS_OP_WRITE are atomic: the eight bytes that were there come back. */
enum rds_rdma_kind {
	RDS_OP_READ = 0,           /* from the peer */
	RDS_OP_WRITE = 1,          /* to the peer */
	RDS_OP_ADD = 2,
	RDS_OP_SWAP = 3,           /* if it equals compare */
	RDS_OP_MASKED_ADD = 4,     /* of several fields */
	RDS_OP_MASKED_SWAP = 5,    /* of some bits, if others are equal */
};

/* Memory of a program here that an operation uses: one of both. */
struct rds_local {
	struct kapi_pin *pin;
	struct rds_mr *mr;         /* of get_local() */
};

/* An operation on memory of the peer that goes before a message, at most once. */
struct rds_rdma_op {
	kapi_u64 remote;           /* address at the peer; of an atomic one a multiple of eight */
	kapi_u64 operand, compare; /* of an atomic one, host order: what is added, or swapped in */
	kapi_u64 operand_mask, compare_mask; /* of a masked one, as of a kapi_wr */
	kapi_u32 key;              /* of the peer's memory there */
	kapi_u32 bytes;
	enum rds_rdma_kind kind;
	int alone;                 /* the message is not sent */
	unsigned int count;        /* of pieces, whose bytes are the local side in this order */
	struct rds_local local[];
};

/* Memory of a program that a peer is to use. */
struct rds_memory {
	struct kapi_pin *pin;      /* NULL: the device fetches pages when they are used */
	kapi_u64 address, bytes;
	kapi_u32 user;             /* for whom it is counted */
};

enum rds_stream_waits {
	RDS_NO_STREAM_WAITS = 0,
	RDS_STREAM_WAITS = 1,
	RDS_STREAM_MISPLACED = 2, /* the present one is another path's */
	RDS_STREAM_UNPLACED = 3,  /* the path has one, and of the one that waits it is not known which path it is for */
};

enum rds_path_event {
	RDS_PATH_ESTABLISHED = 1, /* the stream that connect() started is up: established() decides */
	RDS_PATH_LOST = 2,        /* the stream ended or failed */
	RDS_PATH_ACCEPTED = 4,    /* adopt() has something */
	RDS_PATH_RESUME = 8,      /* room to read again */
	RDS_PATH_SEND = 16,       /* something to send, or room to send again */
	RDS_PATH_WANTED = 32,     /* connect without having something to send */
	RDS_PATH_PROBE = 64,      /* find out whether the peer is still there */
	RDS_PATH_RECYCLE = 128,   /* close gracefully and connect anew */
	RDS_PATH_TICK = 256,      /* a timer ran out */
	RDS_PATH_RETIRE = 512,    /* close gracefully, for nobody uses the path; with RDS_PATH_LOST at once */
};

enum rds_tick {
	RDS_TICK_ANSWERED,
	RDS_TICK_UNANSWERED, /* the peer does not acknowledge what was sent to it, or not yet all of it again */
	RDS_TICK_DEAD,       /* and has not for so long that it must be taken for dead */
};

/* What a transport keeps as a row of RDS_INFO_TCP_SOCKETS. Addresses with ports; sequence numbers as TCP's. */
struct rds_tcp_socket_row {
	struct kapi_addr local, peer;
	kapi_u64 header_left, data_left;
	kapi_u32 sent_next, expected_una, seen_una;
	kapi_u32 rtt_us; /* 0: not known */
};

/* What a transport keeps as a row of RDS_INFO_IB_CONNECTIONS: of its queues, and zeroes while the path has none that are up. */
struct rds_rdma_row {
	kapi_u8 local_gid[16], remote_gid[16];
	kapi_u32 max_send_wr, max_recv_wr; /* requests that the queues have room for */
	kapi_u32 max_send_sge;             /* pieces of a request */
	kapi_u32 mr_max, mr_pages;         /* memory regions that programs may have at the device, and pages of one */
};

struct rds_transport {
	const char *name;
	enum rds_transport_type type;
	struct kapi_module *owner;
	unsigned int max_paths;
	int zerocopy; /* MSG_ZEROCOPY is allowed */
	int names_peer; /* it calls rds_conn_peer_is(), and foreign peers get no probes and answer none */

	/* [sleep] 0 when addr is an address this transport can use in net; -ENOMEM: that cannot be found out now. */
	int (*check_local)(struct kapi_net *net, const struct kapi_addr *addr);
	/*
	 * [sleep] A socket of net is being bound to an address of the transport: from now on peers must be able to connect to
	 * it, until socket_closed(), which is called once for it. An error (-ENOMEM, -EADDRINUSE) is the bind's. NULL, both:
	 * they always can.
	 */
	int (*socket_bound)(struct kapi_net *net);
	void (*socket_closed)(struct kapi_net *net); /* [sleep] */
	/* [any] The type of service that the wire carries for the user's tos. */
	kapi_u8 (*map_tos)(kapi_u8 tos);

	/* [sleep], with KAPI_ATOMIC [any]. State for a new connection, or NULL. Its addresses are fixed. */
	void *(*create)(struct rds_conn *conn, struct kapi_net *net, const struct kapi_addr *local,
			const struct kapi_addr *remote, kapi_u8 tos, enum kapi_alloc_mode mode);
	/* [sleep] No path has a stream any more. */
	void (*destroy)(void *state);

	/* [worker] Starts a connection attempt; an event follows. An error starts the back-off. */
	int (*connect)(void *state, unsigned int path);
	/*
	 * [worker] After RDS_PATH_ESTABLISHED: 1 the path is up; 0 the peer will connect to us, keep waiting; 2 a step of
	 * connecting is done, and RDS_PATH_ESTABLISHED or RDS_PATH_LOST follows.
	 */
	int (*established)(void *state, unsigned int path);
	/* [worker] Takes a stream that the peer opened for this path: 1 the path is up, 0 there is none. Only when
	 * down. */
	int (*adopt)(void *state, unsigned int path);
	/* [worker] Is there a stream that adopt() would take, or would if the path had none? */
	enum rds_stream_waits (*has_accepted)(void *state, unsigned int path);
	/* [worker] One step of closing: what the peer sent and TCP acknowledged is received first. */
	enum rds_closing (*close)(void *state, unsigned int path, enum rds_close_mode mode);
	/* [worker or sender, one at a time a path] As kapi_stream_send. NULL of a transport with post(). */
	kapi_s64 (*send)(void *state, unsigned int path, const struct kapi_segment *segments, unsigned int count,
			 unsigned int flags, kapi_u32 *end_seq);
	/*
	 * [worker or sender, one at a time a path] Takes whole messages in order: returns how many, or a negative error that
	 * ended the stream and took none. Fewer than count: RDS_PATH_SEND follows when there is room. It holds (rds_out_hold)
	 * what it needs longer. NULL of a transport with send().
	 */
	int (*post)(void *state, unsigned int path, struct rds_out *const *messages, unsigned int count);
	/* As kapi_pin_user(), kapi_unpin() and kapi_pin_pages(), which are in a module that RDS itself does without. */
	int (*pin)(kapi_u64 address, kapi_size length, int write, struct kapi_pin **pin);
	void (*unpin)(struct kapi_pin *pin, int dirty);
	unsigned int (*pin_pages)(const struct kapi_pin *pin);
	/*
	 * [sleep] 0: the device that the connection uses has atomic operations of this kind; also 0 while it has none. Else
	 * -EOPNOTSUPP.
	 */
	int (*check_atomic)(void *state, enum rds_rdma_kind kind);
	/*
	 * [any] A hold on the present stream of the first path, for get_local(), and for get_mr(), which takes it over. NULL: it
	 * has none. This, the four above and the seven below are NULL of a transport without memory regions and operations.
	 */
	void *(*hold)(void *state);
	void (*let_go)(void *held); /* [any] */
	/*
	 * [task] Lets who has *key, as the peer of the held stream, read and write the bytes of memory and no others, from the
	 * place of the first one in its page on. It takes the pin over in any case. -EAGAIN: the stream has ended; -ENOMEM,
	 * -EMSGSIZE, -EIO, -EINTR; -ETIMEDOUT: the peer takes nothing for a while. Without a pin: -EOPNOTSUPP: the device cannot
	 * fetch these pages; -EFAULT: it finds none that may be written.
	 */
	int (*get_mr)(void *held, const struct rds_memory *memory, kapi_u32 *key, struct rds_mr **mr);
	/*
	 * [task] Memory of the calling program, without a pin, for operations on the held stream, or on a later one of the same
	 * device; on another one they fail. write: the operation changes it. Errors as get_mr()'s without a pin.
	 */
	int (*get_local)(void *held, kapi_u64 address, kapi_size bytes, int write, kapi_u32 user, struct rds_mr **mr);
	void (*put_local)(struct rds_mr *mr); /* [any] Ends soon; no operation that uses it is outstanding. */
	/* [sleep] The key is dead when this returns, and pin is unpinned. sync_mr() may run meanwhile, and be called later. */
	void (*end_mr)(struct rds_mr *mr);
	/* [sleep] Once; before or after its end. */
	void (*free_mr)(struct rds_mr *mr);
	/*
	 * [sleep] Should the device work on copies: the program gets what peers have written, or (to_peers) peers get what the
	 * program has written, which then has the same bytes. Nothing for a region that has ended.
	 */
	void (*sync_mr)(struct rds_mr *mr, int to_peers);
	/* [worker] Reads on after a stall. */
	void (*resume)(void *state, unsigned int path);
	/*
	 * [worker] Looks after the stream while messages are queued or unacknowledged: each second, and ten times a second
	 * after RDS_TICK_UNANSWERED.
	 */
	enum rds_tick (*tick)(void *state, unsigned int path);

	/* Counters of a namespace, appended to the core's. [any] */
	unsigned int counters;
	const char *const *counter_names;
	kapi_u64 (*counter)(struct kapi_net *net, unsigned int index);
	/* [any] Fills row for the path's socket: 0 when it has none. NULL of a transport without TCP's sockets. */
	int (*socket_row)(void *state, unsigned int path, struct rds_tcp_socket_row *row);
	/* [any] Fills row for the path's queues. NULL of a transport without RDMA's. */
	void (*rdma_row)(void *state, unsigned int path, struct rds_rdma_row *row);
};

/*
 * [init] Offers a transport to the sockets of all namespaces; -EEXIST when its type is taken. The last step of loading:
 * any operation may be called before this returns, so each namespace is ready and nothing that can fail follows.
 */
int rds_transport_register(const struct rds_transport *transport);
/*
 * [init] The first step of unloading: no socket finds it any more, and none is bound to it (those hold owner). Its
 * connections go with rds_transport_leave_net().
 */
void rds_transport_unregister(const struct rds_transport *transport);
/*
 * [init] Destroys its connections in one namespace and returns when none is left there, so that the table may be freed
 * after the last namespace. create() must refuse new ones there before. Sleeps.
 */
void rds_transport_leave_net(const struct rds_transport *transport, struct kapi_net *net);

/*
 * [sleep] Ends the streams of its connections in one namespace soon, without waiting for what is in flight. The connections stay,
 * with their memory of what was received. connect() and adopt() must refuse new streams there before.
 */
void rds_transport_end_streams(const struct rds_transport *transport, struct kapi_net *net);

/*
 * [sleep] The connection between two addresses, made when new, with a reference for the caller. -ENETUNREACH: the
 * namespace or transport is going; -ENOBUFS: too many connections; -ENOMEM.
 */
int rds_conn_get(struct kapi_net *net, const struct rds_transport *transport, const struct kapi_addr *local,
		 const struct kapi_addr *remote, kapi_u8 tos, struct rds_conn **conn, void **state);
void rds_conn_put(struct rds_conn *conn); /* [any] */
/* [any] How many paths the peer has agreed to (0: not known yet), and whether its source ports tell the path. */
unsigned int rds_conn_paths(struct rds_conn *conn, int *peer_indexes);

/* [any] The peer runs the kernel's own module, as far as is known: it does not answer probes. */
int rds_conn_is_foreign(struct rds_conn *conn);
/* [any] For whom it was made: the number of a user (kapi_sk_user()), or KAPI_USERS: a peer. */
kapi_u32 rds_conn_payer(struct rds_conn *conn);
/* [any] Another user whose program's last message went this way, or the same. */
kapi_u32 rds_conn_other_user(struct rds_conn *conn);
/* [worker] What the peer runs, before established() or adopt() returns 1. Of a transport that names its peers. */
void rds_conn_peer_is(struct rds_conn *conn, int hawser);

/*
 * A stream for each path is counted with a connection that a peer made, and with none that is charged to a program. Further ones,
 * which the peer's host opened and which wait at a path that has one, are counted as memory of peers as long as they wait.
 * [any] Is there room for another? 0: yes; 1: for one that waits at each path; -ENOBUFS: only for one of a path that has none.
 */
int rds_conn_stream_room(struct rds_conn *conn);
void rds_conn_stream_added(struct rds_conn *conn); /* [any] */
void rds_conn_stream_gone(struct rds_conn *conn);  /* [any] */
/*
 * [any] Any user of the peer's host can open a stream. Does header, the first RDS_HEADER_SIZE bytes of one, name the sender that
 * the stream before it of some path had? No stranger can do that.
 */
int rds_conn_is_peers(struct rds_conn *conn, const void *header);
/* [any] A line in the log: the peer's address, and what happened to the connection. */
void rds_conn_note(struct rds_conn *conn, const char *what);

/* [any] Notifies path's worker. events: enum rds_path_event or-ed. */
void rds_path_notify(struct rds_conn *conn, unsigned int path, unsigned int events);
/* [any] Must the path not be read now, because a socket is full? RDS_PATH_RESUME follows. */
int rds_path_stalled(struct rds_conn *conn, unsigned int path);
/* [any] The same a little later, for want of memory. */
void rds_path_retry_later(struct rds_conn *conn, unsigned int path, unsigned int events);
/*
 * [any] The peer's transport has everything before una (sequence space of end_seq), and may be sent more. With post(): the
 * peer's RDS has all messages before the number of which una is the low half.
 */
void rds_path_acked(struct rds_conn *conn, unsigned int path, kapi_u32 una);
/*
 * [any] Was memory of a program given to the present stream? When close() is done, the program may be notified that it is free:
 * nothing of it may be sent then.
 */
int rds_path_has_pinned(struct rds_conn *conn, unsigned int path);

/*
 * [any] A new message with this header (RDS_HEADER_SIZE bytes, not yet trusted), behind which the offer has so many bytes.
 * -EPROTO: no RDS header; -ENOMEM, also when there are too many messages of which only a part has arrived; -EAGAIN: a
 * socket is full, RDS_PATH_RESUME follows, or as rds_inc_leaves().
 */
int rds_inc_create(struct rds_conn *conn, unsigned int path, const void *header, kapi_size behind,
		   struct rds_inc **inc);
kapi_u32 rds_inc_left(const struct rds_inc *inc); /* payload bytes still missing */
/*
 * [any] One byte of the message at least has come. 1: it stays unread until the program that the message is for comes for it,
 * or a few milliseconds have passed: resume() follows.
 */
int rds_inc_leaves(struct rds_inc *inc);
/* From rx(): takes size bytes at offset of the offer. -ENOMEM: nothing was taken. */
int rds_inc_append(struct rds_inc *inc, struct kapi_rx *rx, kapi_size offset, kapi_u32 size);
int rds_inc_copies(const struct rds_inc *inc); /* [any] 1: so does rds_inc_attach(), it takes no buffer */
/*
 * [any] Takes the first size bytes of buffer, no more than rds_inc_left(). 1: the buffer is the message's now; 0: they were
 * copied; -ENOMEM: nothing was taken.
 */
int rds_inc_attach(struct rds_inc *inc, struct kapi_rxbuf *buffer, kapi_u32 size);
void rds_inc_free(struct rds_inc *inc); /* [any] an incomplete message */
/* [any] Delivers a complete message and takes it over. rds_path_stalled() says whether to read on. */
void rds_inc_deliver(struct rds_inc *inc);

/* [any] From post(). The header (RDS_HEADER_SIZE bytes), and so many bytes of payload. */
const void *rds_out_header(const struct rds_out *out);
/*
 * [any] From post(). The same where the payload follows it directly, NULL else. The transport may fill in flags, acknowledgement
 * and checksum there; it does not rely on them when the message is posted again. The bytes stay where they are while out is held.
 */
void *rds_out_whole(struct rds_out *out);
kapi_u32 rds_out_length(const struct rds_out *out);
/* [any] The payload from offset on, as kapi_pages_segments(). The bytes stay where they are while out is held. */
unsigned int rds_out_segments(struct rds_out *out, kapi_u32 offset, struct kapi_segment *segments, unsigned int count);
/*
 * [any] From post(). The operation that is to be executed before the message is sent; NULL: none, or rds_out_rdma_begins() was
 * called, which comes before it is posted: it is never posted again. The message is given up with the stream then, unless the
 * operation was done with success.
 */
const struct rds_rdma_op *rds_out_rdma(const struct rds_out *out);
void rds_out_rdma_begins(struct rds_out *out);
/* [any] It has ended, and the pins are not mapped any more. Without success the message is not sent again. */
void rds_out_rdma_done(struct rds_out *out, enum rds_rdma_status status);
void rds_out_hold(struct rds_out *out); /* [any] */
void rds_out_put(struct rds_out *out);  /* [any] */
/* [any] The same of one whose bytes a device may use for ever: they are never freed. */
void rds_out_abandon(struct rds_out *out);

KAPI_END
#endif
