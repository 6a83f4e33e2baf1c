// SPDX-License-Identifier: GPL-2.0
/* /proc/net/kcm and /proc/net/kcm_stats, in the columns of the kernel's own. */
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include "glue.h"
#include "kcm_core.h"

static void show_traffic(struct seq_file *seq, const struct kcm_traffic *traffic)
{
	seq_printf(seq, " %-10llu %-16llu %-10llu %-16llu", traffic->rx_msgs, traffic->rx_bytes, traffic->tx_msgs,
		   traffic->tx_bytes);
}

/* When the buffer is full all this is done again with one of twice the size, so the rest would be for nothing. */
static int enough(struct seq_file *seq)
{
	cond_resched();
	return seq_has_overflowed(seq);
}

static int show_mux(void *context, const struct kcm_mux_row *row)
{
	struct seq_file *seq = context;

	seq_printf(seq, "%-14s", "mux");
	show_traffic(seq, &row->traffic);
	seq_printf(seq, " %-8s %-8s %-8s %-8s KCMs: %u, Psocks %u\n", "-", "-", "-", "-", row->sockets,
		   row->connections);
	return enough(seq);
}

static int show_socket(void *context, const struct kcm_socket_row *row)
{
	struct seq_file *seq = context;

	seq_printf(seq, "   kcm-%-7u", row->index);
	show_traffic(seq, &row->traffic);
	seq_printf(seq, " %-8u %-8u %-8u %-8s ", row->recv_q, row->rmem, row->send_q, "-");
	if (row->reserved >= 0)
		seq_printf(seq, "Psck-%d ", row->reserved);
	if (row->tx_wait)
		seq_puts(seq, "TxWait ");
	if (row->tx_wait_more)
		seq_puts(seq, "WMore ");
	if (row->rx_wait)
		seq_puts(seq, "RxWait ");
	seq_putc(seq, '\n');
	return enough(seq);
}

static int show_connection(void *context, const struct kcm_connection_row *row)
{
	struct seq_file *seq = context;

	seq_printf(seq, "   psock-%-5u", row->index);
	show_traffic(seq, &row->traffic);
	seq_printf(seq, " %-8u %-8u %-8u %-8u ", row->recv_q, row->rmem, row->send_q, row->smem);
	if (row->done)
		seq_puts(seq, "Done ");
	if (row->tx_stopped)
		seq_puts(seq, "TxStop ");
	if (row->rx_stopped)
		seq_puts(seq, "RxStop ");
	if (row->reserved >= 0)
		seq_printf(seq, "Rsvd-%d ", row->reserved);
	if (row->rx_paused)
		seq_puts(seq, "RxPause RdyRx ");
	else if (row->rx_need)
		seq_printf(seq, "RxWait=%u ", row->rx_need);
	else if (row->recv_q)
		seq_puts(seq, "RxWait ");
	seq_putc(seq, '\n');
	return enough(seq);
}

static int kcm_show(struct seq_file *seq, void *unused)
{
	static const struct kcm_rows rows = {
		.mux = show_mux,
		.socket = show_socket,
		.connection = show_connection,
	};
	struct kcm_net *core = kcm_glue_net(seq_file_single_net(seq));

	seq_printf(seq, "*** KCM statistics (%u MUX) ****\n", kcm_net_muxes(core));
	seq_printf(seq, "%-14s %-10s %-16s %-10s %-16s %-8s %-8s %-8s %-8s %s\n", "Object", "RX-Msgs", "RX-Bytes",
		   "TX-Msgs", "TX-Bytes", "Recv-Q", "Rmem", "Send-Q", "Smem", "Status");
	kcm_net_show(core, &rows, seq);
	return 0;
}

/* A line of names and a line of their values below. */
struct kcm_column {
	const char *name;
	u64 value;
	int width;
};

static void show_columns(struct seq_file *seq, const char *title, const struct kcm_column *columns, int count)
{
	int i;

	seq_printf(seq, "%-8s", title);
	for (i = 0; i < count; i++)
		seq_printf(seq, " %-*s", columns[i].width, columns[i].name);
	seq_printf(seq, "\n%-8s", "");
	for (i = 0; i < count; i++)
		seq_printf(seq, " %-*llu", columns[i].width, columns[i].value);
	seq_putc(seq, '\n');
}

static int kcm_stats_show(struct seq_file *seq, void *unused)
{
	struct kcm_totals totals;

	kcm_net_totals(kcm_glue_net(seq_file_single_net(seq)), &totals);
	{
		const struct kcm_column mux[] = {
			{ "RX-Msgs", totals.mux.rx_msgs, 10 },
			{ "RX-Bytes", totals.mux.rx_bytes, 16 },
			{ "TX-Msgs", totals.mux.tx_msgs, 10 },
			{ "TX-Bytes", totals.mux.tx_bytes, 16 },
			{ "TX-Retries", totals.tx_retries, 10 },
			{ "Attach", totals.attach, 10 },
			{ "Unattach", totals.unattach, 10 },
			{ "UnattchRsvd", totals.unattach_reserved, 10 },
			{ "RX-RdyDrops", totals.rx_ready_drops, 10 },
		};
		const struct kcm_column psock[] = {
			{ "RX-Msgs", totals.connections.rx_msgs, 10 },
			{ "RX-Bytes", totals.connections.rx_bytes, 16 },
			{ "TX-Msgs", totals.connections.tx_msgs, 10 },
			{ "TX-Bytes", totals.connections.tx_bytes, 16 },
			{ "Reserved", totals.reserved, 10 },
			{ "Unreserved", totals.unreserved, 10 },
			{ "RX-Aborts", totals.rx_aborts, 10 },
			{ "RX-Intr", totals.rx_interrupted, 10 },
			{ "RX-Unrecov", totals.rx_unrecovered, 10 },
			{ "RX-MemFail", totals.rx_no_memory, 10 },
			{ "RX-NeedMor", totals.rx_need_more, 10 },
			{ "RX-BadLen", totals.rx_bad_length, 10 },
			{ "RX-TooBig", totals.rx_too_big, 10 },
			{ "RX-Timeout", totals.rx_timeouts, 10 },
			{ "TX-Aborts", totals.tx_aborts, 10 },
		};

		show_columns(seq, "MUX", mux, ARRAY_SIZE(mux));
		show_columns(seq, "Psock", psock, ARRAY_SIZE(psock));
	}
	return 0;
}

int kcm_glue_proc_create(struct net *net)
{
	if (!proc_create_net_single("kcm_stats", 0444, net->proc_net, kcm_stats_show, NULL))
		return -ENOMEM;
	if (!proc_create_net_single("kcm", 0444, net->proc_net, kcm_show, NULL)) {
		remove_proc_entry("kcm_stats", net->proc_net);
		return -ENOMEM;
	}
	return 0;
}

void kcm_glue_proc_remove(struct net *net)
{
	remove_proc_entry("kcm", net->proc_net);
	remove_proc_entry("kcm_stats", net->proc_net);
}
