// SPDX-License-Identifier: GPL-2.0
/* The type of service, which TCP takes and maps to none. */
#include "api.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

void api_ioctl(void)
{
	uint8_t tos = 3, got = 9;
	int loose = rds_socket(HERE), loop = rds_bound(HERE, "127.0.0.1", 0), tcp = rds_bound(HERE, HERE4, 0);
	struct addr self = addr_of(tcp);
	int number;

	EXPECT_ERRNO(ioctl(loose, SIOCRDSSETTOS, &tos), ENOTTY, "SIOCRDSSETTOS: unbound");
	EXPECT_ERRNO(ioctl(loop, SIOCRDSSETTOS, &tos), ENOTTY, "SIOCRDSSETTOS: loopback has none");
	EXPECT_ERRNO(ioctl(tcp, SIOCRDSSETTOS, bad_pointer()), EFAULT, "SIOCRDSSETTOS: bad pointer");
	EXPECT_OK(ioctl(tcp, SIOCRDSSETTOS, &tos), "SIOCRDSSETTOS: TCP takes it");
	check(ioctl(tcp, SIOCRDSGETTOS, &got) == 0 && got == 0, "SIOCRDSGETTOS: TCP maps it to 0");
	EXPECT_OK(ioctl(tcp, SIOCRDSSETTOS, &tos), "SIOCRDSSETTOS: again, as it is still 0");
	NEED(rds_send(tcp, "x", 1, &self, 0) == 1);
	EXPECT_ERRNO(ioctl(tcp, SIOCRDSSETTOS, &tos), EINVAL, "SIOCRDSSETTOS: after the first message");
	got = 9;
	check(ioctl(loose, SIOCRDSGETTOS, &got) == 0 && got == 0, "SIOCRDSGETTOS: 0 when unbound");
	EXPECT_ERRNO(ioctl(loose, SIOCRDSGETTOS, bad_pointer()), EFAULT, "SIOCRDSGETTOS: bad pointer");
	EXPECT_ERRNO(ioctl(tcp, SIOCRDSGETTOS + 1, &got), ENOTTY, "ioctl: unknown");
	EXPECT_ERRNO(ioctl(tcp, SIOCINQ, &number), ENOTTY, "ioctl: SIOCINQ");
	EXPECT_ERRNO(ioctl(tcp, SIOCOUTQ, &number), ENOTTY, "ioctl: SIOCOUTQ");
	close(loose);
	close(loop);
	close(tcp);
}
