// SPDX-License-Identifier: GPL-2.0
/* A broken or malicious peer; an honest one must not be affected. */
#include "wire.h"

int main(int argc, char **argv)
{
	ktap_start("rds hostile_peer", argc, argv);
	scene_open();
	attack_framing();
	attack_lengths();
	attack_maps();
	attack_extensions();
	attack_sequences();
	attack_ports();
	attack_crowds();
	attack_floods();
	return ktap_finish();
}
