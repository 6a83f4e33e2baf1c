# SPDX-License-Identifier: GPL-2.0
#
# `make help` lists the targets.

# The kernel to build for: the newest one whose headers are installed, never the running one (which a package
# build or a container does not share).
release_of = sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' $(1)/include/generated/utsrelease.h 2>/dev/null
KDIR ?= $(shell for dir in /lib/modules/*/build /usr/src/linux-headers-*; do \
		[ ! -e "$$dir/Module.symvers" ] || echo "$$($(call release_of,$$dir)) $$dir"; \
	done | sort -V | tail -n 1 | cut -d' ' -f2)

# Kbuild writes beside the sources. It is given a mirror of symbolic links instead, one for each kernel, so
# that two kernels do not fight and the sources may be read-only.
NAME ?= $(shell $(call release_of,$(KDIR)))
OUT ?= $(CURDIR)/build/modules/$(NAME)

# The kernels of the lab (scripts/kernels.sh puts them below build/kernels).
KERNELS ?= 6.1 6.12

# As many jobs as processors, unless make was given a number. MAKEFLAGS contains it only in recipes.
jobs = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# The compiler of a kernel that clang has built, when the user names none; gcc is Kbuild's own choice.
kernel_clang = $(shell sed -n 's/^CONFIG_CLANG_VERSION=\(.*\)[0-9]\{4\}$$/\1/p' $(KDIR)/include/config/auto.conf)
compiler = $(if $(filter command%,$(origin CC) $(origin LLVM)),,$(kernel_clang:%=CC=clang-%))
# A kernel of another architecture is built for with Debian's cross compiler, when the user names no other.
kernel_arm64 = $(shell grep -sx CONFIG_ARM64=y $(KDIR)/include/config/auto.conf)
cross = $(if $(kernel_arm64),$(if $(filter aarch64,$(shell uname -m)),,ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-))
# A kernel of a newer Debian comes with the system whose compiler has built it.
system = $(if $(filter %/headers,$(KDIR)),$(wildcard $(KDIR:%/headers=%/system)))
# The modules are the same wherever they are built; for our own sources Makefile.cxx sees to it, here it is for Kbuild's.
kbuild = $(if $(system),scripts/in-system.sh $(system)) $(MAKE) $(jobs) -C $(KDIR) M=$(OUT) $(cross) \
	PAHOLE=$(OUT)/scripts/pahole $(compiler) 'KCFLAGS=-ffile-prefix-map=$(OUT)=. $(KCFLAGS)'
mirrored := Kbuild include kapi net drivers scripts debian/changelog selftests/kapi selftests/rtrs/consumer

all: modules

modules: mirror
	@scripts/build-modules.sh $(OUT) $(KDIR) $(kbuild)

mirror:
	@test -n "$(KDIR)" || \
		{ echo "No kernel headers are installed: install linux-headers-amd64, or give KDIR=" >&2; \
		exit 1; }
	@test -e $(KDIR)/Module.symvers || { echo "$(KDIR) holds no kernel headers" >&2; exit 1; }
	@mkdir -p $(OUT)
	@for path in $(mirrored); do \
		[ ! -e $$path ] || { mkdir -p $(OUT)/$$(dirname $$path) && \
			cp -rsf $(CURDIR)/$$path $(OUT)/$$(dirname $$path)/; } || exit 1; \
	done
	@find $(OUT) -xtype l -delete

# For both kernels of the lab, with the test modules, warnings being errors.
modules-all: $(KERNELS:%=modules-%)

modules-%: build/kernels/%/headers
	@$(MAKE) --no-print-directory modules NAME=$* KDIR=$(CURDIR)/build/kernels/$*/headers HAWSER_TESTS=y \
		KCFLAGS=-Werror

build/kernels/%-debug/headers: scripts/debug-kernel/machine.config scripts/debug-kernel/debug.config
	scripts/debug-kernel.sh $*-debug

build/kernels/%-kcsan/headers: scripts/debug-kernel/machine.config scripts/debug-kernel/kcsan.config
	scripts/debug-kernel.sh $*-kcsan

build/kernels/%-cfi/headers: scripts/debug-kernel/machine.config scripts/debug-kernel/cfi.config
	scripts/debug-kernel.sh $*-cfi

build/kernels/%/headers:
	@scripts/setup.sh build
	scripts/kernels.sh $*

# Make would remove the intermediate results of implicit rules.
.PRECIOUS: build/kernels/%/headers build/kernels/%-debug/headers build/kernels/%-kcsan/headers

# Where the kernel has no signing key to sign with, Kbuild does not try. depmod is run here because Kbuild does so
# only when it finds System.map, which header packages do not hold.
# Below another root (DESTDIR, INSTALL_MOD_PATH) it is left to the owner of that root.
INSTALL_MOD_DIR ?= updates
install_root = $(DESTDIR)$(INSTALL_MOD_PATH)
modules_install: modules
	@$(kbuild) INSTALL_MOD_DIR=$(INSTALL_MOD_DIR) INSTALL_MOD_PATH=$(install_root) \
		$(if $(wildcard $(KDIR)/certs/signing_key.pem),,CONFIG_MODULE_SIG_ALL=) DEPMOD=true modules_install
	$(if $(install_root),@echo 'not installed for this system: no depmod',depmod $$($(call release_of,$(KDIR))))

# The modules of a kernel and the programs. RELEASE= names a kernel whose headers are gone.
RELEASE ?= $(shell $(call release_of,$(KDIR)))
installed = $(shell sed -n 's/^obj-.* += \(.*\)\.o$$/\1/p' Kbuild)
modules_folder = $(install_root)/lib/modules/$(RELEASE)/$(INSTALL_MOD_DIR)
uninstall:
	rm -f $(installed:%=$(modules_folder)/%.ko*)
	@[ ! -d $(modules_folder) ] || rmdir --ignore-fail-on-non-empty $(modules_folder)
	$(if $(install_root),@echo 'not removed from this system: no depmod',depmod $(RELEASE))
	@$(MAKE) --no-print-directory -f tools/Makefile uninstall

# The last commit as a tarball: the same bytes wherever it is made. Where such a tarball was unpacked, the files that are there.
version := $(shell sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
dist:
	@mkdir -p build
	@if [ -e .git ]; then \
		git -c safe.directory='*' archive --format=tar --prefix=hawser-$(version)/ -o build/hawser-$(version).tar HEAD; \
	else \
		tar -cf build/hawser-$(version).tar --sort=name --owner=0 --group=0 --exclude=./build \
			--transform='s|^\.|hawser-$(version)|S' .; \
	fi
	@gzip -nf9 build/hawser-$(version).tar
	@echo build/hawser-$(version).tar.gz

# Debian packages of the same.
deb: dist
	@scripts/setup.sh deb
	@rm -rf build/deb
	@mkdir -p build/deb
	@tar -C build/deb -xf build/hawser-$(version).tar.gz
	@cd build/deb/hawser-$(version) && dpkg-buildpackage -us -uc -b
	@ls build/deb/*.deb

# Those packages built twice, installed in copies of this system and of Debian 13, and their modules booted. Needs root.
check-packages: dist
	@scripts/setup.sh build lab rdma deb packages
	@scripts/kernels.sh 6.1 6.12
	@scripts/packages/debian13.sh
	@$(MAKE) --no-print-directory -C selftests/rds
	@$(MAKE) --no-print-directory -C selftests/rtrs
	@scripts/packages.sh

# The programs that tests put into virtual machines: static, because those have no libraries.
programs:
	@$(static_tools)
	@$(MAKE) $(jobs) --no-print-directory -C selftests/rds
	@$(MAKE) $(jobs) --no-print-directory -C selftests/kcm
	@$(MAKE) $(jobs) --no-print-directory -C selftests/rtrs
	@$(MAKE) $(jobs) --no-print-directory -C selftests/lab

# Those of RDS and KCM for machines with arm64. liburing comes with the kernel's programs, all else with the cross compiler.
arm64_guest = $(CURDIR)/build/kernels/6.12-arm64/guest/usr
arm64_programs = CC=aarch64-linux-gnu-gcc O=$(CURDIR)/build/selftests-arm64 \
	CFLAGS='-O2 -g -idirafter $(arm64_guest)/include -L$(arm64_guest)/lib/aarch64-linux-gnu'

programs-arm64: build/kernels/6.12-arm64/headers
	@$(MAKE) $(jobs) --no-print-directory -C selftests/rds $(arm64_programs)
	@$(MAKE) $(jobs) --no-print-directory -C selftests/kcm $(arm64_programs)
	@$(static_tools) O=build/static-arm64 CC=aarch64-linux-gnu-gcc

# The steps in selftests/plan: the quick ones, or with LEVEL=all every one.
# ONLY='interop/ api' runs a part of everything.
LEVEL ?= quick
check:
	@scripts/setup.sh build host lab rdma
	@scripts/check.py --level $(LEVEL) $(ONLY:%=--only '%')

# The steps for Debian's newest kernel, 7.2 of sid, with that one's compiler.
check-newest:
	@scripts/setup.sh build host lab rdma
	@scripts/check.py --level newest $(ONLY:%=--only '%')

# The main scenes with Debian's 6.12 that has PREEMPT_RT.
check-rt:
	@scripts/setup.sh build lab rdma
	@scripts/check.py --level rt $(ONLY:%=--only '%')

# The main scenes of RDS and KCM on emulated machines with arm64.
check-arm64:
	@scripts/setup.sh build lab rdma arm64
	@scripts/check.py --level arm64 $(ONLY:%=--only '%')

# The simulator: SEEDS=300 of them, or MINUTES= of new ones, or SEED= alone with details.
sim:
	@scripts/setup.sh host
	@$(MAKE) $(jobs) --no-print-directory -s -f selftests/host.mk sim HOST=g++ $(SEEDS:%=SEEDS=%) \
		$(if $(MINUTES),FRESH=$$(($(MINUTES) * 60))) $(SEED:%=SEED=%)

# The tests in virtual machines once more, on a kernel with every run-time check that it has.
DEBUG_KERNEL ?= 6.1-debug

check-debug:
	@scripts/setup.sh build lab kernel rdma
	@scripts/debug-kernel.sh $(DEBUG_KERNEL)
	@$(MAKE) --no-print-directory modules-$(DEBUG_KERNEL) programs
	@scripts/rnbd.sh $(DEBUG_KERNEL) ours
	@$(MAKE) --no-print-directory -C selftests/lab KVERS=$(DEBUG_KERNEL)
	@scripts/check-debug.sh $(DEBUG_KERNEL) $(SCENES)

# Two virtual machines that exchange data over RDS, over TCP and RDMA, and over KCM, and one that has a disk of the other over
# RTRS, with explanations.
MACHINES ?= a=6.1:ours b=6.1:ours
machines = $(MACHINES:%=--host '%')

run: lab-ready
	@scripts/lab/lab run $(machines) selftests/rds/story.sh selftests/rds/story_rdma.sh selftests/kcm/story.sh && \
		$(rtrs_story) && echo 'It works: the modules transferred all of it.' || \
		{ echo 'It does not work here; the reason is above.' >&2; exit 1; }

# Its last part alone.
run-rtrs: lab-ready
	@$(rtrs_story)

# RNBD is built of the kernel's source, which is downloaded the first time.
rtrs_story = $(booted:%=scripts/rnbd.sh % ours &&) scripts/lab/lab run $(machines) selftests/rtrs/story.sh

# The same two machines with a shell in each.
lab: lab-ready
	@scripts/lab/lab shell $(machines) $(patsubst %,--file build/static/%,rds-ping rds-info rds-stress kcm-server kcm-client)

# Only what those machines need. KERNEL is taken from MACHINES' NAME=KERNEL:SUITE.
booted = $(sort $(foreach machine,$(MACHINES),$(word 2,$(subst :, ,$(subst =, ,$(machine))))))
static_tools = $(MAKE) $(jobs) --no-print-directory -f tools/Makefile O=build/static STATIC=1 WERROR=1

lab-ready:
	@scripts/setup.sh build lab
	@scripts/kernels.sh $(booted)
	@echo 'building modules and programs, which takes minutes the first time (build/ready.log)'
	@$(MAKE) --no-print-directory $(booted:%=modules-%) >build/ready.log 2>&1 && \
		$(static_tools) >>build/ready.log 2>&1 || { cat build/ready.log >&2; exit 1; }

# The fuzzers, for so long each.
fuzz:
	@scripts/setup.sh host
	@$(MAKE) $(jobs) --no-print-directory -f selftests/host.mk fuzz FUZZ_SECONDS=$$(($(or $(MINUTES),10) * 60))

# The core's lines and branches that tests on this machine execute.
coverage:
	@scripts/setup.sh host
	@$(MAKE) $(jobs) --no-print-directory -f selftests/coverage.mk

# COUNT= changes of core that the tests on this machine should notice; SEED= draws the same again, ONLY= files or folders,
# KIND=wake one kind, GIVEN= those that a file lists.
mutate:
	@scripts/setup.sh host
	@nice $(MAKE) $(jobs) --no-print-directory -s -f selftests/host.mk mutate HOST=g++ MUTATE='$(COUNT:%=--count %) \
		$(SEED:%=--seed %) $(ONLY:%=--only %) $(KIND:%=--kind %) $(GIVEN:%=--given %)'

# The cost of a message with ours, with the kernel's own modules and with raw TCP. Tables and JSON in build/bench.
# BENCH=quick: two minutes, of 6.12 what is counted in instructions; else BENCH is the options of scripts/bench/bench.
ifeq ($(BENCH),quick)
bench: bench-programs
	@scripts/bench/bench --kernel 6.12 --part instructions --part loopback
	@scripts/bench/kcm --kernel 6.12 --part instructions
else
bench: bench-rds bench-kcm bench-rdma bench-rtrs
endif

bench-programs: modules-all
	@$(MAKE) --no-print-directory -C selftests/bench

bench-rds: bench-programs
	@scripts/bench/bench $(BENCH)

# The instructions of a message of RDS and KCM against those in selftests/bench/cells.txt; CELLS=--write measures these anew.
bench-cells: bench-programs
	@scripts/bench/cells $(CELLS)

bench-kcm: bench-programs
	@scripts/bench/kcm $(BENCH_KCM)

bench-rdma: bench-programs
	@scripts/setup.sh bench
	@scripts/bench/rdma $(BENCH_RDMA)

bench-rtrs: bench-programs
	@scripts/setup.sh bench rdma
	@scripts/bench/rtrs $(BENCH_RTRS)

clean:
	rm -rf build/modules build/static build/static-arm64 build/tools build/selftests build/selftests-arm64 build/host \
		build/host-comparisons build/lab build/check build/deb build/package build/packages build/hawser-*.tar.gz

help:
	@echo 'make                  builds the modules for KDIR=$(KDIR)'
	@echo '                      into build/modules/$(NAME)'
	@echo 'make modules_install  installs them below /lib/modules/.../updates (as root)'
	@echo 'make uninstall        removes those of one kernel, and the programs that tools/Makefile has installed'
	@echo 'make modules-all      builds them for the kernels of the lab: $(KERNELS)'
	@echo 'make run              two virtual machines exchange data over RDS (TCP and RDMA) and KCM; one has a file'
	@echo '                      system on a disk of the other, over two paths of RTRS; one is cut; with explanations'
	@echo 'make run-rtrs         its last part alone'
	@echo 'make lab              the same two machines with a shell in each'
	@echo 'make check            the quick tests of everything, 15 minutes at most'
	@echo "make check LEVEL=all  all tests, an hour at most; ONLY='api interop/' runs those whose names contain one of these"
	@echo 'make check-newest     the main tests in virtual machines with the newest kernel of Debian sid'
	@echo "make check-rt         the main tests in virtual machines with Debian's 6.12 that has PREEMPT_RT"
	@echo 'make check-arm64      the main tests of RDS and KCM in virtual machines with arm64, cross-built'
	@echo 'make sim              simulated machines with faults: SEEDS= or MINUTES=; SEED=n replays one'
	@echo 'make check-debug      the tests in virtual machines on a kernel with KASAN, lockdep and kmemleak'
	@echo 'make fuzz             the fuzzers, MINUTES= each'
	@echo 'make coverage         share of core that the tests on this machine execute'
	@echo 'make mutate           changes core in COUNT= places, one by one, and reports the changes that no test notices'
	@echo 'make bench            the cost of a message: ours, the kernel'"'"'s own and raw TCP (BENCH=quick: in 2 min)'
	@echo 'make bench-cells      fails when a message costs 3 % more instructions than selftests/bench/cells.txt says'
	@echo 'make bench-rdma       the same of RDS over RDMA, beside raw verbs; a part of make bench'
	@echo 'make bench-rtrs       the cost of a request to a disk over RTRS; a part of make bench'
	@echo 'make dist             the last commit, or what an unpacked one has, as build/hawser-$(version).tar.gz'
	@echo 'make deb              Debian packages of the same, in build/deb: hawser-dkms, hawser-tools, hawser-dev'
	@echo 'make check-packages   builds, checks, installs, upgrades and removes those, and boots their modules (as root)'
	@echo 'make clean            removes what was built; the kernels below build/kernels stay'

.PHONY: all modules mirror modules-all modules_install programs programs-arm64 clean help
.PHONY: run run-rtrs lab lab-ready check check-newest check-rt check-arm64 check-debug sim fuzz coverage mutate
.PHONY: uninstall dist deb check-packages
.PHONY: bench bench-programs bench-cells bench-rds bench-kcm bench-rdma bench-rtrs
.DEFAULT_GOAL := all
