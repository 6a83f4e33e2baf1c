#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=150 mem=768
# files: build/selftests/fuzz selftests/lib/unload.sh selftests/lib/fuzz/afterwards.sh
# modules: veth tcp_diag
#
# Random calls by many threads on shared sockets, while addresses, links, namespaces, settings and memory come
# and go. Then fresh sockets work, the modules unload, and the memory is free again. `lab run --seed N` for another mix.

. unload.sh
. afterwards.sh
load_rds
before=$(held)
fuzz "$SEED"
all_gone "$before" rds_tcp rds hawser
