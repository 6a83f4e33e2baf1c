// SPDX-License-Identifier: GPL-2.0
#include "rds-address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rds_address_from_ipv4(union rds_address *address, in_addr_t ipv4, in_port_t port)
{
	memset(address, 0, sizeof(*address));
	address->ipv4.sin_family = AF_INET;
	address->ipv4.sin_addr.s_addr = ipv4;
	address->ipv4.sin_port = port;
}

void rds_address_from_ipv6(union rds_address *address, struct in6_addr ipv6, in_port_t port)
{
	if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
		in_addr_t ipv4;

		memcpy(&ipv4, &ipv6.s6_addr[12], sizeof(ipv4));
		rds_address_from_ipv4(address, ipv4, port);
		return;
	}
	memset(address, 0, sizeof(*address));
	address->ipv6.sin6_family = AF_INET6;
	address->ipv6.sin6_addr = ipv6;
	address->ipv6.sin6_port = port;
}

/* @scope is the text after '%': the name of an interface or its number. */
static const char *parse_scope(const char *scope, union rds_address *address)
{
	unsigned int index = if_nametoindex(scope);
	char name[IF_NAMESIZE];
	char *end;

	if (!index) {
		unsigned long number = strtoul(scope, &end, 10);

		if (!*scope || *end || number > UINT32_MAX || !if_indextoname((unsigned int)number, name))
			return "no such interface after '%'";
		index = (unsigned int)number;
	}
	address->ipv6.sin6_scope_id = index;
	return NULL;
}

static const char *parse_ipv6(const char *text, union rds_address *address)
{
	const char *percent = strchr(text, '%');
	char host[INET6_ADDRSTRLEN];
	struct in6_addr ipv6;
	size_t length = percent ? (size_t)(percent - text) : strlen(text);

	if (length >= sizeof(host))
		return "not an IPv6 address";
	memcpy(host, text, length);
	host[length] = '\0';
	if (inet_pton(AF_INET6, host, &ipv6) != 1)
		return "not an IPv6 address";
	rds_address_from_ipv6(address, ipv6, 0);
	if (address->any.sa_family == AF_INET)
		return percent ? "an IPv4 address has no interface" : NULL;
	if (percent)
		return parse_scope(percent + 1, address);
	if (IN6_IS_ADDR_LINKLOCAL(&ipv6))
		return "a link-local address needs its interface, as in fe80::1%eth0";
	return NULL;
}

#ifdef RDS_TOOLS_STATIC
/* glibc cannot resolve names in a static program without its shared libraries, so this build does not try. */
static const char *resolve(const char *name, union rds_address *address)
{
	(void)name;
	(void)address;
	return "not an address (this static build does not resolve names)";
}
#else
static const char *resolve(const char *name, union rds_address *address)
{
	const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	int error = getaddrinfo(name, NULL, &wanted, &found);

	if (error)
		return gai_strerror(error);
	memset(address, 0, sizeof(*address));
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return NULL;
}
#endif

const char *rds_address_parse(const char *text, union rds_address *address)
{
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1) {
		rds_address_from_ipv4(address, ipv4.s_addr, 0);
		return NULL;
	}
	if (strchr(text, ':'))
		return parse_ipv6(text, address);
	if (!*text)
		return "empty";
	return resolve(text, address);
}

const char *rds_address_format(const union rds_address *address, char *text)
{
	char name[IF_NAMESIZE];
	size_t length;

	if (address->any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &address->ipv4.sin_addr, text, RDS_ADDRESS_TEXT_SIZE);
		return text;
	}
	inet_ntop(AF_INET6, &address->ipv6.sin6_addr, text, RDS_ADDRESS_TEXT_SIZE);
	if (address->ipv6.sin6_scope_id) {
		length = strlen(text);
		if (if_indextoname(address->ipv6.sin6_scope_id, name))
			snprintf(text + length, RDS_ADDRESS_TEXT_SIZE - length, "%%%s", name);
		else
			snprintf(text + length, RDS_ADDRESS_TEXT_SIZE - length, "%%%u",
				 address->ipv6.sin6_scope_id);
	}
	return text;
}

socklen_t rds_address_size(const union rds_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->ipv4) : sizeof(address->ipv6);
}

uint16_t rds_address_port(const union rds_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->ipv4.sin_port : address->ipv6.sin6_port);
}

void rds_address_set_port(union rds_address *address, uint16_t port)
{
	if (address->any.sa_family == AF_INET)
		address->ipv4.sin_port = htons(port);
	else
		address->ipv6.sin6_port = htons(port);
}

bool rds_address_is_any(const union rds_address *address)
{
	if (address->any.sa_family == AF_INET)
		return address->ipv4.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&address->ipv6.sin6_addr);
}

int rds_address_compare_hosts(const union rds_address *one, const union rds_address *other)
{
	if (one->any.sa_family != other->any.sa_family)
		return one->any.sa_family < other->any.sa_family ? -1 : 1;
	if (one->any.sa_family == AF_INET)
		return memcmp(&one->ipv4.sin_addr, &other->ipv4.sin_addr, sizeof(one->ipv4.sin_addr));
	return memcmp(&one->ipv6.sin6_addr, &other->ipv6.sin6_addr, sizeof(one->ipv6.sin6_addr));
}

bool rds_address_same_host(const union rds_address *one, const union rds_address *other)
{
	return !rds_address_compare_hosts(one, other);
}
