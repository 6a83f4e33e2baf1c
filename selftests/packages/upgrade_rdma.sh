#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Modules are replaced by those of another version under traffic over RDMA, as upgrade.sh does over TCP.
#
# lab: hosts=2 time=240
# files: build/packages/result/usr/bin/rds-info build/selftests/xfer selftests/lib/unload.sh selftests/lib/versions.sh
# files: build/packages/result/usr/bin/kcm-server build/packages/result/usr/bin/kcm-client /usr/bin/jq
# files: build/packages/programs-before/kcm-server-before build/packages/programs-before/kcm-client-before
# files: selftests/packages/upgrade.sh
# modules: build/packages/modules-before/{kver}/hawser.ko build/packages/modules-before/{kver}/hawser_verbs.ko
# modules: build/packages/modules-before/{kver}/rds.ko build/packages/modules-before/{kver}/rds_rdma.ko
# modules: build/packages/modules-before/{kver}/kcm.ko

load_rxe rdma_cm && rdma link add rxe0 type rxe netdev eth0
# shellcheck disable=SC2034 # used there
transport=rds_rdma verbs=hawser_verbs
. upgrade.sh
