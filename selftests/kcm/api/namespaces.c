// SPDX-License-Identifier: GPL-2.0
#include "api.h"

static int multiplexors(int ns)
{
	char text[4096];
	int count = -1, home = netns_self();

	if (ns != HERE)
		netns_enter(ns);
	NEED(read_file("/proc/thread-self/net/kcm", text, sizeof(text)));
	netns_enter(home);
	close(home);
	NEED(sscanf(text, "*** KCM statistics (%d MUX)", &count) == 1);
	return count;
}

static void own_list(void)
{
	int home = netns_self(), other = netns_new(), kcm;

	kcm = kcm_socket(other, SOCK_DGRAM);
	EXPECT_EQ(multiplexors(other), 1, "namespace: it lists its own multiplexor");
	EXPECT_EQ(multiplexors(home), 0, "namespace: and no other does");
	close(kcm);
	EXPECT_EQ(multiplexors(other), 0, "namespace: until it is closed");
	close(other);
	close(home);
}

static void inside(void)
{
	int other = netns_new(), kcm = kcm_socket(other, SOCK_DGRAM);
	struct link l = tcp_link(other, AF_INET);

	EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "namespace: a connection of the same one");
	peer_send_frame(l.far, MEDIUM, 1);
	check(kcm_takes(kcm, MEDIUM, 1), "namespace: receives");
	check(kcm_sends(kcm, MEDIUM, 2) && peer_takes(l.far, MEDIUM, 2), "namespace: sends");
	close(other);
	peer_send_frame(l.far, MEDIUM, 3);
	check(kcm_takes(kcm, MEDIUM, 3), "namespace: its sockets keep it alive");
	close(kcm);
	tcp_link_close(&l);
}

static void across(void)
{
	int other = netns_new(), kcm = kcm_socket(HERE, SOCK_DGRAM), clone;
	struct link l = tcp_link(other, AF_INET);

	EXPECT_OK(kcm_attach(kcm, l.near, parser_framed()), "namespace: a connection of another one");
	check(multiplexors(HERE) == 1 && multiplexors(other) == 0, "namespace: it is listed where the KCM socket is");
	close(other);
	peer_send_frame(l.far, MEDIUM, 1);
	check(kcm_takes(kcm, MEDIUM, 1), "namespace: receives from there");
	check(kcm_sends(kcm, MEDIUM, 2) && peer_takes(l.far, MEDIUM, 2), "namespace: sends there");
	close(l.near);
	clone = kcm_clone(kcm);
	close(kcm);
	check(kcm_sends(clone, MEDIUM, 3) && peer_takes(l.far, MEDIUM, 3), "namespace: also when only KCM holds it");
	close(clone);
	close(l.far);
}

void api_namespaces(void)
{
	own_list();
	inside();
	across();
}
