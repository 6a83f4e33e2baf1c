// SPDX-License-Identifier: GPL-2.0
/* /proc/net/kcm and /proc/net/kcm_stats, as tools read them. */
#include "api.h"

#include <arpa/inet.h>
#include <sys/stat.h>

#define OVERVIEW "/proc/thread-self/net/kcm"
#define COUNTERS "/proc/thread-self/net/kcm_stats"

/* A file as lines of words. */
#define LINES 40
#define WORDS 20

struct text {
	char bytes[16384];
	char *word[LINES][WORDS];
	int words[LINES], lines;
};

static void text_read(struct text *t, const char *path)
{
	char *line, *word, *end_of_line, *end_of_word;

	memset(t, 0, sizeof(*t));
	NEED(read_file(path, t->bytes, sizeof(t->bytes)));
	for (line = strtok_r(t->bytes, "\n", &end_of_line); line; line = strtok_r(NULL, "\n", &end_of_line)) {
		NEED(t->lines < LINES);
		for (word = strtok_r(line, " ", &end_of_word); word; word = strtok_r(NULL, " ", &end_of_word)) {
			NEED(t->words[t->lines] < WORDS);
			t->word[t->lines][t->words[t->lines]++] = word;
		}
		t->lines++;
	}
}

/* The words of a line joined by single blanks. */
static bool line_is(struct text *t, int line, const char *want)
{
	static char got[512];

	got[0] = '\0';
	for (int i = 0; line < t->lines && i < t->words[line]; i++) {
		strcat(got, i ? " " : "");
		strcat(got, t->word[line][i]);
	}
	if (strcmp(got, want))
		note("line %d is '%s', expected '%s'", line, got, want);
	return !strcmp(got, want);
}

static int find_line(struct text *t, const char *first)
{
	for (int i = 0; i < t->lines; i++)
		if (t->words[i] && !strcmp(t->word[i][0], first))
			return i;
	return -1;
}

static bool word_is(struct text *t, int line, int index, long long want)
{
	bool same = line >= 0 && index < t->words[line] && atoll(t->word[line][index]) == want;

	if (!same && line >= 0 && index < t->words[line])
		note("%s: word %d is '%s', expected %lld", t->word[line][0], index, t->word[line][index], want);
	return same;
}

static void modes(void)
{
	struct stat st;

	check(stat(OVERVIEW, &st) == 0 && (st.st_mode & 0777) == 0444, "/proc/net/kcm: readable for all users");
	check(stat(COUNTERS, &st) == 0 && (st.st_mode & 0777) == 0444, "/proc/net/kcm_stats: readable for all users");
}

static void overview(void)
{
	static struct text t;
	struct rig r;
	int line;

	text_read(&t, OVERVIEW);
	check(line_is(&t, 0, "*** KCM statistics (0 MUX) ****"), "/proc/net/kcm: its first line, with no multiplexor");
	check(line_is(&t, 1, "Object RX-Msgs RX-Bytes TX-Msgs TX-Bytes Recv-Q Rmem Send-Q Smem Status"),
	      "/proc/net/kcm: its columns");
	r = rig_open(SOCK_DGRAM, parser_framed());
	for (int i = 0; i < 3; i++) {
		peer_send_frame(r.peer, MEDIUM, i);
		NEED(kcm_takes(r.kcm, MEDIUM, i));
	}
	NEED(kcm_sends(r.kcm, 64, 1) && peer_takes(r.peer, 64, 1));
	peer_send_frame(r.peer, MEDIUM, 3);
	NEED(polled(r.kcm, POLLIN, SOON_MS));
	text_read(&t, OVERVIEW);
	check(line_is(&t, 0, "*** KCM statistics (1 MUX) ****"), "/proc/net/kcm: counts multiplexors");
	line = find_line(&t, "mux");
	check(line == 2 && word_is(&t, line, 3, 1) && word_is(&t, line, 4, 64), "/proc/net/kcm: mux, sent messages");
	check(line == 2 && t.words[line] == 13 && !strcmp(t.word[line][5], "-") && !strcmp(t.word[line][9], "KCMs:") &&
		      !strcmp(t.word[line][10], "1,") && !strcmp(t.word[line][11], "Psocks") &&
		      !strcmp(t.word[line][12], "1"),
	      "/proc/net/kcm: mux, numbers of sockets and connections");
	line = find_line(&t, "kcm-0");
	check(word_is(&t, line, 1, 3) && word_is(&t, line, 2, 3 * MEDIUM), "/proc/net/kcm: kcm, read messages");
	check(word_is(&t, line, 3, 1) && word_is(&t, line, 4, 64), "/proc/net/kcm: kcm, sent messages");
	check(word_is(&t, line, 5, 1), "/proc/net/kcm: kcm, Recv-Q is the unread messages");
	line = find_line(&t, "psock-0");
	check(word_is(&t, line, 1, 4) && word_is(&t, line, 2, 4 * MEDIUM), "/proc/net/kcm: psock, received messages");
	check(word_is(&t, line, 3, 1) && word_is(&t, line, 4, 64), "/proc/net/kcm: psock, sent messages");
	rig_close(&r);
	check(WAIT_UNTIL(SOON_MS, (text_read(&t, OVERVIEW), line_is(&t, 0, "*** KCM statistics (0 MUX) ****"))),
	      "/proc/net/kcm: a multiplexor whose sockets are closed is removed");
}

static void mux_receive_counters(void)
{
	static struct text t;
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	int line;

	for (int i = 0; i < 3; i++) {
		peer_send_frame(r.peer, MEDIUM, i);
		NEED(kcm_takes(r.kcm, MEDIUM, i));
	}
	text_read(&t, OVERVIEW);
	line = find_line(&t, "mux");
	differs(word_is(&t, line, 1, 3) && word_is(&t, line, 2, 3 * MEDIUM), "counters-lag",
		"/proc/net/kcm: mux, received messages");
	rig_close(&r);
}

static bool has_status(const char *object, const char *word)
{
	static struct text t;
	int line;

	text_read(&t, OVERVIEW);
	line = find_line(&t, object);
	for (int i = 9; line >= 0 && i < t.words[line]; i++)
		if (!strncmp(t.word[line][i], word, strlen(word)))
			return true;
	return false;
}

static void statuses(void)
{
	struct rig r = rig_open(SOCK_SEQPACKET, parser_framed());

	check(has_status("kcm-0", "RxWait"), "/proc/net/kcm: kcm, RxWait when it waits for messages");
	NEED(kcm_disable(r.kcm, 1) == 0);
	check(!has_status("kcm-0", "RxWait"), "/proc/net/kcm: kcm, not when it is disabled");
	peer_send_frame(r.peer, MEDIUM, 1);
	check(WAIT_UNTIL(SOON_MS, has_status("psock-0", "RdyRx")),
	      "/proc/net/kcm: psock, RdyRx with a message that no socket takes");
	NEED(kcm_disable(r.kcm, 0) == 0 && kcm_takes(r.kcm, MEDIUM, 1));
	/* It goes after 10 ms. */
	check(WAIT_UNTIL(SOON_MS, send(r.kcm, "batch", 5, MSG_BATCH | MSG_EOR) == 5 && has_status("kcm-0", "WMore")),
	      "/proc/net/kcm: kcm, WMore with a batch that is held");
	rig_close(&r);
	r = rig_open(SOCK_DGRAM, parser_framed());
	set_timeout_ms(r.tcp, SO_RCVTIMEO, 50);
	peer_send(r.peer, "a", 1);
	NEED(sock_error_soon(r.tcp) == ETIMEDOUT);
	check(has_status("psock-0", "RxStop"), "/proc/net/kcm: psock, RxStop after an error");
	rig_close(&r);
}

static void headers(struct text *t)
{
	text_read(t, COUNTERS);
	EXPECT_EQ(t->lines, 4, "/proc/net/kcm_stats: two pairs of lines");
	check(line_is(t, 0, "MUX RX-Msgs RX-Bytes TX-Msgs TX-Bytes TX-Retries Attach Unattach UnattchRsvd RX-RdyDrops"),
	      "/proc/net/kcm_stats: columns of multiplexors");
	check(t->words[1] == 9, "/proc/net/kcm_stats: their values");
	check(line_is(t, 2,
		      "Psock RX-Msgs RX-Bytes TX-Msgs TX-Bytes Reserved Unreserved RX-Aborts RX-Intr RX-Unrecov "
		      "RX-MemFail RX-NeedMor RX-BadLen RX-TooBig RX-Timeout TX-Aborts"),
	      "/proc/net/kcm_stats: columns of connections");
	check(t->words[3] == 15, "/proc/net/kcm_stats: their values");
}

static long long counter(const char *kind, const char *name)
{
	static struct text t;
	int line;

	text_read(&t, COUNTERS);
	line = find_line(&t, kind);
	NEED(line >= 0 && line + 1 < t.lines);
	for (int i = 1; i < t.words[line]; i++)
		if (!strcmp(t.word[line][i], name))
			return atoll(t.word[line + 1][i - 1]); /* values have no name before them */
	note("no column %s", name);
	NEED(!"column");
	return 0;
}

static void counters(void)
{
	static struct text t;
	long long received = counter("Psock", "RX-Msgs"), sent = counter("Psock", "TX-Msgs");
	long long attached = counter("MUX", "Attach"), unattached = counter("MUX", "Unattach");
	long long large = counter("Psock", "RX-TooBig"), late = counter("Psock", "RX-Timeout");
	struct rig r = rig_open(SOCK_DGRAM, parser_framed());
	uint32_t huge = htonl(0xffffff);

	headers(&t);
	peer_send_frame(r.peer, MEDIUM, 1);
	NEED(kcm_takes(r.kcm, MEDIUM, 1));
	NEED(kcm_sends(r.kcm, MEDIUM, 1) && peer_takes(r.peer, MEDIUM, 1));
	set_timeout_ms(r.tcp, SO_RCVTIMEO, 100);
	peer_send(r.peer, "ab", 2);
	NEED(sock_error_soon(r.tcp) == ETIMEDOUT);
	NEED(kcm_unattach(r.kcm, r.tcp) == 0);
	EXPECT_EQ(counter("MUX", "Attach") - attached, 1, "/proc/net/kcm_stats: Attach");
	differs(counter("MUX", "Unattach") - unattached == 1, "counters-swapped", "/proc/net/kcm_stats: Unattach");
	EXPECT_EQ(counter("Psock", "RX-Timeout") - late, 1, "/proc/net/kcm_stats: RX-Timeout");
	rig_close(&r);
	r = rig_open(SOCK_DGRAM, parser_framed());
	peer_send(r.peer, &huge, 4);
	NEED(sock_error_soon(r.tcp));
	rig_close(&r);
	EXPECT_EQ(counter("Psock", "RX-TooBig") - large, 1, "/proc/net/kcm_stats: RX-TooBig");
	EXPECT_EQ(counter("Psock", "RX-Msgs") - received, 1, "/proc/net/kcm_stats: RX-Msgs");
	EXPECT_EQ(counter("Psock", "TX-Msgs") - sent, 1, "/proc/net/kcm_stats: TX-Msgs");
}

void api_proc(void)
{
	modes();
	overview();
	mux_receive_counters();
	statuses();
	counters();
}
