// SPDX-License-Identifier: GPL-2.0
#include "kcm-asker.h"

void asker_fails(struct asker *asker, const char *what, int error)
{
	asker->failure = what;
	asker->error = error;
}
