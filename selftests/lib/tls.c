// SPDX-License-Identifier: GPL-2.0
#include "tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "ktap.h"

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

int tls_start(int tcp)
{
	return setsockopt(tcp, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"));
}

int tls_set_key(int tcp, int way, int version, unsigned char key)
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = (unsigned short)version, .cipher_type = TLS_CIPHER_AES_GCM_128 },
	};

	memset(info.key, key, sizeof(info.key));
	memset(info.salt, key + 1, sizeof(info.salt));
	memset(info.iv, key + 2, sizeof(info.iv));
	return setsockopt(tcp, SOL_TLS, way, &info, sizeof(info));
}

static bool secure_end(int tcp, int version, unsigned char sending, unsigned char receiving)
{
	return !tls_start(tcp) && !tls_set_key(tcp, TLS_TX, version, sending) && !tls_set_key(tcp, TLS_RX, version, receiving);
}

bool tls_secure(int one, int other, int version)
{
	return secure_end(one, version, 1, 2) && secure_end(other, version, 2, 1);
}

bool tls_has_readers(void)
{
	struct utsname name;
	int major = 0, minor = 0;

	NEED(uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2);
	return major > 6 || (major == 6 && minor >= 12);
}
