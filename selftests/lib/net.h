/* SPDX-License-Identifier: GPL-2.0 */
/* Network namespaces, links and addresses over rtnetlink, so that a test needs no ip(8). */
#ifndef SELFTESTS_LIB_NET_H
#define SELFTESTS_LIB_NET_H

#include <stdbool.h>

#define HERE (-1) /* as a namespace: the one that the thread is in */

/** netns_self - a new descriptor of the namespace that the thread is in */
int netns_self(void);
/** netns_new - a new namespace with its loopback up; it exists as long as the descriptor or its contents */
int netns_new(void);
void netns_enter(int ns);
/** socket_in - socket() made in @ns */
int socket_in(int ns, int family, int type, int protocol);

/** net_veth - a pair of links, @name_a in @ns_a and @name_b in @ns_b, both up */
void net_veth(int ns_a, const char *name_a, int ns_b, const char *name_b);
/** net_address - add (or remove) @cidr such as "10.0.0.1/24" on @link; usable at once, no duplicate search */
void net_address(int ns, const char *link, const char *cidr, bool add);
void net_set_up(int ns, const char *link, bool up);
/** net_delete - remove @link if it is there; one that vanishes meanwhile (its namespace ends) counts as removed */
void net_delete(int ns, const char *link);
/** net_index - the index of @link in @ns, 0 when there is none */
int net_index(int ns, const char *link);

#endif
