// SPDX-License-Identifier: GPL-2.0
/* Attaching and unattaching, with programs of every kind. */
#include "fuzz.h"

#include <limits.h>
#include <sys/ioctl.h>

static int programs[16], program_count, other_kind;

static void add_program(int fd)
{
	NEED(program_count < (int)ARRAY_SIZE(programs));
	programs[program_count++] = fd;
}

void programs_open(void)
{
	static const int values[] = { 0, 1, 3, 50, 1000, 5000, 70000, 100000000, INT_MAX, -1, -11, -22, -4096, INT_MIN };

	parser_framed();
	other_kind = program_of_another_kind();
	add_program(parser_first_byte());
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		add_program(parser_constant(values[i]));
}

/* Valid attachments, in each world. */
void attach(struct caller *c, struct shared s)
{
	int tcp = some(c, s.polite ? POLITE_NEAR : NEAR);

	CALL(c, K_ATTACH, kcm_attach(s.fd, tcp, parser_framed()));
}

static void attach_any(struct caller *c)
{
	int tcp = chance(c, 4) ? some(c, FAR) : some(c, NEAR);

	CALL(c, K_ATTACH_ANY, kcm_attach(some(c, WILD), tcp, programs[pick(c, program_count)]));
}

/* Wild sockets never get a polite connection: random descriptors include none. */
static void attach_bad(struct caller *c, struct shared s)
{
	static const int no_program[] = { -1, 999 };
	void *where[] = { bad_pointer(), kernel_pointer(), NULL };

	switch (pick(c, 4)) {
	case 0:
		CALL(c, K_ATTACH_BAD, ioctl(s.fd, SIOCKCMATTACH, ANY_OF(c, where)));
		return;
	case 1:
		CALL(c, K_ATTACH_BAD, kcm_attach(s.fd, some(c, POLITE_NEAR), ANY_OF(c, no_program)));
		return;
	case 2:
		CALL(c, K_ATTACH_BAD, kcm_attach(s.fd, some(c, NEAR), chance(c, 2) ? other_kind : some_kcm(c).fd));
		return;
	default:
		CALL(c, K_ATTACH_BAD, kcm_attach(s.fd, some_kcm(c).fd, parser_framed()));
	}
}

static void unattach_bad(struct caller *c, struct shared s)
{
	void *where[] = { bad_pointer(), kernel_pointer(), NULL };

	if (chance(c, 2))
		CALL(c, K_UNATTACH_BAD, ioctl(s.fd, SIOCKCMUNATTACH, ANY_OF(c, where)));
	else
		CALL(c, K_UNATTACH_BAD, kcm_unattach(s.fd, s.polite ? some(c, NEAR) : some(c, POLITE_NEAR)));
}

/* A slot may hold either end of a link, or the same end as another slot. */
static void unattach(struct caller *c, struct shared s)
{
	int tcp = s.polite ? some(c, POLITE_NEAR) : chance(c, 4) ? any_descriptor(c) : some(c, NEAR);

	CALL(c, K_UNATTACH, kcm_unattach(s.fd, tcp));
}

void call_attach(struct caller *c)
{
	struct shared s = some_kcm(c);

	switch (pick(c, 12)) {
	case 0:
		return attach_bad(c, s);
	case 1:
		return unattach_bad(c, s);
	case 2:
		return attach_any(c);
	case 3: /* never from the polite world */
		CALL(c, K_ATTACH_ANY, kcm_attach(some(c, WILD), any_descriptor(c), programs[pick(c, program_count)]));
		return;
	case 4:
	case 5:
	case 6:
		return unattach(c, s);
	default:
		return attach(c, s);
	}
}
