#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lab: hosts=1 time=300 mem=768
# files: build/selftests/kcm_fuzz selftests/lib/unload.sh selftests/lib/fuzz/afterwards.sh
# modules: veth tls
#
# Random calls by many threads on shared sockets and connections, while namespaces, peers and memory come and go.
# Then fresh sockets work, the modules unload, and the memory is free again. `lab run --seed N` for another mix.

. unload.sh
. afterwards.sh
load_suite kcm
before=$(held)
kcm_fuzz "$SEED"
all_gone "$before" kcm hawser
