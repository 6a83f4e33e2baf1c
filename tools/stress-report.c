// SPDX-License-Identifier: GPL-2.0
#include "stress-report.h"

#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const stress_count_names[STRESS_COUNT_FIELDS] = {
	"requests_sent", "requests_received", "acks_sent",	 "acks_received",
	"bytes_sent",	 "bytes_received",    "rdma_bytes_in",	 "rdma_bytes_out",
	"send_calls",	 "send_ns",	      "rtt_ns",		 "rtt_min_ns",
	"rtt_max_ns",	 "congested",	      "congestion_late", "stale",
	"lost",		 "duplicated",	      "corrupted",	 "rdma_failed",
};

void stress_counts_add(struct stress_counts *counts, const struct stress_counts *other)
{
	uint64_t minimum = counts->rtt_min_ns, maximum = counts->rtt_max_ns;
	uint64_t *sums = (uint64_t *)counts;
	const uint64_t *addends = (const uint64_t *)other;
	size_t i;

	if (other->acks_received && (!counts->acks_received || other->rtt_min_ns < minimum))
		minimum = other->rtt_min_ns;
	if (other->rtt_max_ns > maximum)
		maximum = other->rtt_max_ns;
	for (i = 0; i < STRESS_COUNT_FIELDS; i++)
		sums[i] += addends[i];
	counts->rtt_min_ns = minimum;
	counts->rtt_max_ns = maximum;
}

bool stress_counts_bad(const struct stress_counts *counts)
{
	return counts->lost || counts->duplicated || counts->corrupted || counts->rdma_failed;
}

void stress_report_sum(const struct stress_report *report, struct stress_counts *sum)
{
	unsigned int i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < report->options->tasks; i++)
		stress_counts_add(sum, &report->shared->tasks[i].counts);
}

static void sum_rtt(const struct stress_report *report, struct histogram *sum)
{
	unsigned int i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < report->options->tasks; i++)
		histogram_merge(sum, &report->shared->tasks[i].rtt_us);
}

/* Busy time of all processors since boot, interrupts included. */
static void read_cpu(struct stress_cpu *cpu)
{
	uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
	FILE *file = fopen("/proc/stat", "r");
	int fields = 0;

	if (file) {
		fields = fscanf(file,
				"cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
				" %" SCNu64 " %" SCNu64,
				&user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal);
		fclose(file);
	}
	if (fields != 8)
		die("cannot read the use of the processors from /proc/stat");
	cpu->busy = user + nice + system + irq + softirq + steal;
	cpu->total = cpu->busy + idle + iowait;
}

/* What one line shows. */
struct rates {
	double seconds;
	double requests_sent;
	double requests_received;
	double kbytes;
	double rdma_kbytes_in;
	double rdma_kbytes_out;
	double send_us;
	double rtt_us;
	double cpu;
};

static double per(uint64_t sum, uint64_t count)
{
	return count ? (double)sum / (double)count : 0.0;
}

static void compute_rates(struct rates *rates, const struct stress_counts *from,
			  const struct stress_counts *to, uint64_t ns)
{
	double seconds = ns ? (double)ns / 1e9 : 1.0;

	rates->seconds = seconds;
	rates->requests_sent = (double)(to->requests_sent - from->requests_sent) / seconds;
	rates->requests_received = (double)(to->requests_received - from->requests_received) / seconds;
	rates->kbytes = (double)(to->bytes_sent - from->bytes_sent + to->bytes_received -
				 from->bytes_received) /
			1024.0 / seconds;
	rates->rdma_kbytes_in = (double)(to->rdma_bytes_in - from->rdma_bytes_in) / 1024.0 / seconds;
	rates->rdma_kbytes_out = (double)(to->rdma_bytes_out - from->rdma_bytes_out) / 1024.0 / seconds;
	rates->send_us = per(to->send_ns - from->send_ns, to->send_calls - from->send_calls) / 1e3;
	rates->rtt_us = per(to->rtt_ns - from->rtt_ns, to->acks_received - from->acks_received) / 1e3;
	rates->cpu = -1.0;
}

static void add_cpu(const struct stress_report *report, struct rates *rates, const struct stress_cpu *from,
		    const struct stress_cpu *to)
{
	if (report->options->report_cpu)
		rates->cpu = 100.0 * per(to->busy - from->busy, to->total - from->total);
}

static void print_rates(const struct stress_report *report, const struct rates *rates, const char *remark)
{
	printf("%4" PRIu64 " %6.0f %6.0f %10.2f %10.2f %10.2f %7.2f %8.2f %5.2f%s\n", report->options->tasks,
	       rates->requests_sent, rates->requests_received, rates->kbytes, rates->rdma_kbytes_in,
	       rates->rdma_kbytes_out, rates->send_us, rates->rtt_us, rates->cpu, remark);
	flush_output();
}

static void print_perfdata(const struct stress_report *report, const struct rates *rates)
{
	const struct stress_options *options = report->options;

	printf("::%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.0f,%f,%f,%f,%f,%f,%f\n", options->tasks,
	       options->request_bytes, options->ack_bytes, options->rdma_bytes, rates->requests_sent,
	       rates->kbytes, rates->rdma_kbytes_in, rates->rdma_kbytes_out, rates->send_us, rates->rtt_us,
	       rates->cpu < 0 ? 0.0 : rates->cpu);
	flush_output();
}

static void write_rates(struct json *json, const char *key, const struct rates *rates)
{
	json_open_object(json, key);
	json_decimal(json, "seconds", rates->seconds);
	json_decimal(json, "requests_sent_per_second", rates->requests_sent);
	json_decimal(json, "requests_received_per_second", rates->requests_received);
	json_decimal(json, "kbytes_per_second", rates->kbytes);
	json_decimal(json, "rdma_kbytes_in_per_second", rates->rdma_kbytes_in);
	json_decimal(json, "rdma_kbytes_out_per_second", rates->rdma_kbytes_out);
	json_decimal(json, "send_us", rates->send_us);
	json_decimal(json, "rtt_us", rates->rtt_us);
	if (rates->cpu >= 0)
		json_decimal(json, "cpu_percent", rates->cpu);
	json_close(json);
}

static void write_counts(struct json *json, const char *key, const struct stress_counts *counts)
{
	const uint64_t *values = (const uint64_t *)counts;
	size_t i;

	json_open_object(json, key);
	for (i = 0; i < STRESS_COUNT_FIELDS; i++)
		json_unsigned(json, stress_count_names[i], values[i]);
	json_close(json);
}

static void print_parameter(const char *name, uint64_t value, void *context)
{
	(void)context;
	printf("%18s %" PRIu64 "\n", name, value);
}

static void write_parameter(const char *name, uint64_t value, void *context)
{
	json_unsigned(context, name, value);
}

void stress_report_open(struct stress_report *report, const struct stress_options *options,
			const struct stress_shared *shared)
{
	char text[RDS_ADDRESS_TEXT_SIZE];

	memset(report, 0, sizeof(*report));
	report->options = options;
	report->shared = shared;
	if (options->json) {
		json_start(&report->json, stdout);
		json_open_object(&report->json, NULL);
		json_string(&report->json, "side", options->active ? "active" : "passive");
		json_string(&report->json, "local_address", rds_address_format(&options->local, text));
		json_string(&report->json, "remote_address", rds_address_format(&options->remote, text));
		json_open_object(&report->json, "parameters");
		stress_options_each(options, false, write_parameter, &report->json);
		json_close(&report->json);
		json_open_array(&report->json, "intervals");
		return;
	}
	if (options->show_parameters)
		stress_options_each(options, false, print_parameter, NULL);
	printf("negotiated options, tasks start\n");
	flush_output();
}

void stress_report_begin(struct stress_report *report)
{
	stress_report_sum(report, &report->first);
	sum_rtt(report, &report->first_rtt_us);
	if (report->options->report_cpu)
		read_cpu(&report->first_cpu);
	report->first_ns = now_ns();
	report->last = report->first;
	report->last_cpu = report->first_cpu;
	report->last_ns = report->first_ns;
	if (report->options->json)
		return;
	if (report->options->show_perfdata)
		printf("::nr_tasks:count,req_size:bytes,ack_size:bytes,rdma_size:bytes,req_sent:count,"
		       "thruput:kB/s,thruput_rdma_in:kB/s,thruput_rdma_out:kB/s,tx_delay:microseconds,"
		       "rtt:microseconds,cpu:percent\n");
	else
		printf("%4s %6s %6s %10s %10s %10s %7s %8s %5s\n", "tsks", "tx/s", "rx/s", "tx+rx K/s",
		       "mbi K/s", "mbo K/s", "tx us/c", "rtt us", "cpu %");
	flush_output();
}

void stress_report_interval(struct stress_report *report)
{
	struct stress_cpu cpu = { 0 };
	struct stress_counts sum;
	struct rates rates;
	uint64_t now;

	stress_report_sum(report, &sum);
	if (report->options->report_cpu)
		read_cpu(&cpu);
	now = now_ns();
	compute_rates(&rates, &report->last, &sum, now - report->last_ns);
	add_cpu(report, &rates, &report->last_cpu, &cpu);
	report->last = sum;
	report->last_cpu = cpu;
	report->last_ns = now;
	if (report->options->summary_only)
		return;
	if (report->options->json)
		write_rates(&report->json, NULL, &rates);
	else if (report->options->show_perfdata)
		print_perfdata(report, &rates);
	else
		print_rates(report, &rates, "");
}

void stress_report_end(struct stress_report *report)
{
	stress_report_sum(report, &report->last);
	if (report->options->report_cpu)
		read_cpu(&report->last_cpu);
	report->last_ns = now_ns();
}

static void print_histogram(const struct histogram *rtt_us)
{
	uint64_t total = histogram_count(rtt_us);
	unsigned int power, top = 0;

	for (power = 0; power < 64; power++) {
		if (histogram_count_power(rtt_us, power))
			top = power;
	}
	printf("\nRTT histogram\nRTT (us)        \t\t    Count\n");
	for (power = 0; power <= top; power++) {
		uint64_t count = histogram_count_power(rtt_us, power);

		printf("[%6" PRIu64 " - %6" PRIu64 "] \t\t %8" PRIu64 " \t\t (%.2f%%)\n",
		       power ? UINT64_C(1) << power : 0, UINT64_C(2) << power, count,
		       100.0 * per(count, total));
	}
}

static void write_rtt(struct json *json, const struct histogram *rtt_us, const struct stress_counts *ours)
{
	static const struct {
		const char *name;
		unsigned int per_mille;
	} marks[] = { { "p50", 500 }, { "p90", 900 }, { "p99", 990 }, { "p999", 999 } };
	unsigned int power;
	size_t i;

	json_open_object(json, "rtt_us");
	json_decimal(json, "min", (double)ours->rtt_min_ns / 1e3);
	json_decimal(json, "max", (double)ours->rtt_max_ns / 1e3);
	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		json_unsigned(json, marks[i].name, histogram_percentile(rtt_us, marks[i].per_mille));
	json_open_array(json, "histogram");
	for (power = 0; power < 63; power++) {
		uint64_t count = histogram_count_power(rtt_us, power);

		if (!count)
			continue;
		json_open_object(json, NULL);
		json_unsigned(json, "from", power ? UINT64_C(1) << power : 0);
		json_unsigned(json, "below", UINT64_C(2) << power);
		json_unsigned(json, "count", count);
		json_close(json);
	}
	json_close(json);
	json_close(json);
}

/* Round trips of the measurement, without the warm-up. */
static void measured_rtt(const struct stress_report *report, struct histogram *rtt_us)
{
	size_t i;

	sum_rtt(report, rtt_us);
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		rtt_us->buckets[i] -= report->first_rtt_us.buckets[i];
}

static void print_bad(const char *side, const struct stress_counts *counts)
{
	if (stress_counts_bad(counts))
		printf("ERRORS on %s side: %" PRIu64 " lost, %" PRIu64 " twice, %" PRIu64 " damaged, %" PRIu64
		       " RDMA operations failed\n",
		       side, counts->lost, counts->duplicated, counts->corrupted, counts->rdma_failed);
}

void stress_report_close(struct stress_report *report, const struct stress_counts *ours,
			 const struct stress_counts *theirs)
{
	static struct histogram rtt_us;
	struct rates rates;

	compute_rates(&rates, &report->first, &report->last, report->last_ns - report->first_ns);
	add_cpu(report, &rates, &report->first_cpu, &report->last_cpu);
	measured_rtt(report, &rtt_us);
	if (report->options->json) {
		json_close(&report->json);
		write_rates(&report->json, "average", &rates);
		write_rtt(&report->json, &rtt_us, ours);
		write_counts(&report->json, "counts", ours);
		write_counts(&report->json, "peer_counts", theirs);
		json_bool(&report->json, "good", !stress_counts_bad(ours) && !stress_counts_bad(theirs));
		json_close(&report->json);
		return;
	}
	if (!report->options->summary_only)
		printf("---------------------------------------------\n");
	print_rates(report, &rates, "  (average)");
	if (report->options->show_histogram)
		print_histogram(&rtt_us);
	print_bad("this", ours);
	print_bad("the other", theirs);
}
