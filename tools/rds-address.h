/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HAWSER_TOOLS_RDS_ADDRESS_H
#define HAWSER_TOOLS_RDS_ADDRESS_H

/*
 * An IPv4 or IPv6 address with its port and, for a link-local one, its interface: for binding and sending
 * with RDS.
 */

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union rds_address {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

/* Room for the longest text: an IPv6 address, '%', the name of an interface. */
#define RDS_ADDRESS_TEXT_SIZE (INET6_ADDRSTRLEN + IF_NAMESIZE)

/*
 * Reads an address: "10.0.0.1", "fd00::1", "fe80::1%eth0", or a host's name. A mapped IPv4 address
 * (::ffff:10.0.0.1) becomes IPv4. The port is zero. Returns NULL, or an error message about @text.
 */
const char *rds_address_parse(const char *text, union rds_address *address);

/* Builds an address from the fields of RDS_INFO_* items; @port in network byte order. */
void rds_address_from_ipv4(union rds_address *address, in_addr_t ipv4, in_port_t port);
void rds_address_from_ipv6(union rds_address *address, struct in6_addr ipv6, in_port_t port);

/* Writes the address, without its port, into @text (RDS_ADDRESS_TEXT_SIZE bytes) and returns it. */
const char *rds_address_format(const union rds_address *address, char *text);

/* The size of the sockaddr for system calls. */
socklen_t rds_address_size(const union rds_address *address);

/* The port in host byte order. */
uint16_t rds_address_port(const union rds_address *address);
void rds_address_set_port(union rds_address *address, uint16_t port);

/* True for 0.0.0.0 and ::. */
bool rds_address_is_any(const union rds_address *address);

/* An order of addresses, as memcmp() returns it; ports are ignored. */
int rds_address_compare_hosts(const union rds_address *one, const union rds_address *other);

/* True for equal addresses; ports are ignored. */
bool rds_address_same_host(const union rds_address *one, const union rds_address *other);

#endif
