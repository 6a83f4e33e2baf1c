// SPDX-License-Identifier: GPL-2.0
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ktap.h"

int netns_self(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	NEED(fd >= 0);
	return fd;
}

void netns_enter(int ns)
{
	NEED(setns(ns, CLONE_NEWNET) == 0);
}

int netns_new(void)
{
	int home = netns_self(), ns;

	NEED(unshare(CLONE_NEWNET) == 0);
	ns = netns_self();
	netns_enter(home);
	close(home);
	net_set_up(ns, "lo", true);
	return ns;
}

int socket_in(int ns, int family, int type, int protocol)
{
	int home, fd, saved;

	if (ns == HERE)
		return socket(family, type, protocol);
	home = netns_self();
	netns_enter(ns);
	fd = socket(family, type, protocol);
	saved = errno;
	netns_enter(home);
	close(home);
	errno = saved;
	return fd;
}

struct request {
	struct nlmsghdr header;
	char body[512];
};

static void *append(struct request *r, const void *data, size_t len)
{
	char *at = (char *)r + NLMSG_ALIGN(r->header.nlmsg_len);

	NEED(at + len <= (char *)r + sizeof(*r));
	if (len)
		memcpy(at, data, len);
	r->header.nlmsg_len = at + len - (char *)r;
	return at;
}

static struct rtattr *attribute(struct request *r, unsigned short type, const void *data, size_t len)
{
	struct rtattr header = { .rta_len = RTA_LENGTH(len), .rta_type = type };
	struct rtattr *at = append(r, &header, sizeof(header));

	if (len)
		append(r, data, len);
	return at;
}

static void end_nest(struct request *r, struct rtattr *nest)
{
	nest->rta_len = (char *)r + r->header.nlmsg_len - (char *)nest;
}

/* Send one request into @ns and return the kernel's result. */
static int ask(int ns, struct request *r)
{
	int fd = socket_in(ns, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[1024];
	} answer;

	NEED(fd >= 0);
	r->header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	NEED(send(fd, r, r->header.nlmsg_len, 0) == (ssize_t)r->header.nlmsg_len);
	NEED(recv(fd, &answer, sizeof(answer), 0) >= (ssize_t)NLMSG_LENGTH(sizeof(answer.error)));
	NEED(answer.header.nlmsg_type == NLMSG_ERROR);
	close(fd);
	errno = -answer.error.error;
	return answer.error.error;
}

int net_index(int ns, const char *link)
{
	struct ifreq request = { 0 };
	int fd = socket_in(ns, AF_INET, SOCK_DGRAM, 0);
	int index = 0;

	NEED(fd >= 0);
	strncpy(request.ifr_name, link, IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFINDEX, &request) == 0)
		index = request.ifr_ifindex;
	close(fd);
	return index;
}

void net_veth(int ns_a, const char *name_a, int ns_b, const char *name_b)
{
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(0),
					 .nlmsg_type = RTM_NEWLINK,
					 .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL } };
	struct ifinfomsg link = { .ifi_family = AF_UNSPEC };
	struct rtattr *info, *data, *peer;
	int own = ns_b == HERE ? netns_self() : ns_b;

	append(&r, &link, sizeof(link));
	attribute(&r, IFLA_IFNAME, name_a, strlen(name_a) + 1);
	info = attribute(&r, IFLA_LINKINFO, NULL, 0);
	attribute(&r, IFLA_INFO_KIND, "veth", 4);
	data = attribute(&r, IFLA_INFO_DATA, NULL, 0);
	peer = attribute(&r, VETH_INFO_PEER, NULL, 0);
	append(&r, &link, sizeof(link));
	attribute(&r, IFLA_IFNAME, name_b, strlen(name_b) + 1);
	attribute(&r, IFLA_NET_NS_FD, &own, sizeof(own));
	end_nest(&r, peer);
	end_nest(&r, data);
	end_nest(&r, info);
	NEED(ask(ns_a, &r) == 0);
	if (own != ns_b)
		close(own);
	net_set_up(ns_a, name_a, true);
	net_set_up(ns_b, name_b, true);
}

void net_address(int ns, const char *link, const char *cidr, bool add)
{
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(0),
					 .nlmsg_type = add ? RTM_NEWADDR : RTM_DELADDR,
					 .nlmsg_flags = add ? NLM_F_CREATE | NLM_F_REPLACE : 0 } };
	bool six = strchr(cidr, ':');
	struct ifaddrmsg address = { .ifa_family = six ? AF_INET6 : AF_INET };
	unsigned int flags = IFA_F_NODAD;
	unsigned char binary[16];
	char text[64];
	char *slash;

	NEED(snprintf(text, sizeof(text), "%s", cidr) < (int)sizeof(text));
	slash = strchr(text, '/');
	NEED(slash);
	*slash = '\0';
	NEED(inet_pton(address.ifa_family, text, binary) == 1);
	address.ifa_prefixlen = atoi(slash + 1);
	address.ifa_index = net_index(ns, link);
	NEED(address.ifa_index);
	append(&r, &address, sizeof(address));
	attribute(&r, IFA_LOCAL, binary, six ? 16 : 4);
	attribute(&r, IFA_ADDRESS, binary, six ? 16 : 4);
	if (six)
		attribute(&r, IFA_FLAGS, &flags, sizeof(flags));
	NEED(ask(ns, &r) == 0);
}

void net_set_up(int ns, const char *link, bool up)
{
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(0), .nlmsg_type = RTM_NEWLINK } };
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC,
				  .ifi_change = IFF_UP,
				  .ifi_flags = up ? IFF_UP : 0 };

	info.ifi_index = net_index(ns, link);
	NEED(info.ifi_index);
	append(&r, &info, sizeof(info));
	NEED(ask(ns, &r) == 0);
}

void net_delete(int ns, const char *link)
{
	struct request r = { .header = { .nlmsg_len = NLMSG_LENGTH(0), .nlmsg_type = RTM_DELLINK } };
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
	int error;

	info.ifi_index = net_index(ns, link);
	if (info.ifi_index == 0)
		return;
	append(&r, &info, sizeof(info));
	error = ask(ns, &r);
	/* The end of the other end's namespace removes the link at any moment, so also between these two calls. */
	NEED(error == 0 || error == -ENODEV);
}
