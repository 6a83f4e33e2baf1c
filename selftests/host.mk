# SPDX-License-Identifier: GPL-2.0
# The host build: core and the simulated kapi, once with each compiler, sanitizers on; unit tests, simulation, fuzzers.
#
#   make -f selftests/host.mk unit            unit tests with both compilers
#   make -f selftests/host.mk unit HOST=g++   with one
#   make -f selftests/host.mk unit UNIT_SEEDS=first  each test that takes seeds runs with one
#   make -f selftests/host.mk unit-fast HOST=g++   optimised, without sanitizers
#   make -f selftests/host.mk refused         code that lock analysis must refuse
#   make -f selftests/host.mk sim SEEDS=500   that many seeds; SEED=n replays one
#   make -f selftests/host.mk sim SUITE=kcm   the same for KCM, or SUITE=rtrs for RTRS; so with campaign
#   make -f selftests/host.mk campaign SEEDS=20000  many more, but without sanitizers
#   make -f selftests/host.mk campaign FRESH=45  new seeds for this number of seconds
#   make -f selftests/host.mk bites           plants known bugs and checks that the simulator finds them
#   make -f selftests/host.mk fuzz FUZZ_SECONDS=20 each fuzzer for this time; FUZZ_SEED=1: always the same inputs;
#                                             FUZZ_COMPARISONS=1: with feedback of comparisons, in build/host-comparisons
#   make -f selftests/host.mk tidy            clang-tidy over the core

top := $(patsubst %/,%,$(dir $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))))
out := $(top)/build/host$(FUZZ_COMPARISONS:%=-comparisons)
HOST ?= g++ clang++-19
SEEDS ?= 300
FIRST ?= 1
JOBS ?= $(shell nproc)
# What is simulated: rds, kcm or rtrs.
SUITE ?= rds
FUZZ_SECONDS ?= 15

# common.cc of a module includes other sources, which are compiled here by themselves.
core := $(filter-out %/glue/% %/client/common.cc %/server/common.cc,$(wildcard \
	$(addprefix $(top)/net/,rds/*.cc rds/tcp/*.cc rds/rdma/*.cc kcm/*.cc) $(top)/drivers/infiniband/ulp/rtrs/*/*.cc))
sim := $(wildcard $(top)/kapi/sim/*.cc)
unit := $(wildcard $(top)/selftests/unit/*_test.cc)
# Shared by the unit tests, the campaign and the fuzzers.
coverage := $(addprefix $(top)/selftests/sim/,coverage.cc inspect.cc kcm_host.cc kcm_ledger.cc rds_host.cc rds_socket.cc \
	wire_peer.cc)
program := $(wildcard $(top)/selftests/sim/*.cc)
fuzzers := $(wildcard $(top)/selftests/fuzz/*_fuzz.cc)
fuzz_parts := $(filter-out $(fuzzers),$(wildcard $(top)/selftests/fuzz/*.cc))

includes := -I$(top)/include -I$(top)/kapi/sim/include -I$(top) -I$(top)/net/rds
warnings := -Wall -Wextra -Werror -Wno-unknown-pragmas
sanitize := -fsanitize=address,undefined -fno-sanitize-recover=undefined
common := -std=c++23 -O1 -g -fno-omit-frame-pointer -pthread $(warnings) $(sanitize) $(includes) -MMD -MP
# Core is written for a kernel: no exceptions, no RTTI, no hidden allocation.
core_flags := -fno-exceptions -fno-rtti -fno-threadsafe-statics
# Tests take their time in what they call; optimised, they take twice as long to compile, and with all names for a debugger a
# third longer. Reports have their lines.
test_flags := -O0 -g1
flags_g++ :=
flags_clang++-19 := -Wthread-safety -Wthread-safety-beta -fsanitize-address-use-after-return=never
# The fuzzers' coverage feedback, so that unit tests, simulator and fuzzers share the objects of core. Feedback of comparisons
# makes all of them a third slower: it is for long runs of the fuzzers, in a folder of their own. Tests themselves need none.
feedback_g++ :=
feedback_clang++-19 := -fsanitize-coverage=inline-8bit-counters,pc-table$(FUZZ_COMPARISONS:%=,trace-cmp)

# The header that precedes each unit test, compiled: $(call precompiled_COMPILER,FOLDER) are the options to use it.
precompiled_g++ = -include $(1)/precompiled.h
precompiled_clang++-19 = -include-pch $(1)/precompiled.h.gch
# Its templates are compiled with it.
header_clang++-19 := -fpch-instantiate-templates

.PHONY: host unit refused sim campaign bites fuzz tidy
host: unit sim

# GoogleTest appends the seed's index to the name.
space := $(subst ,, )
later_seeds := $(subst $(space),:,$(foreach index,1 2 3 4 5 6 7 8 9 ??,Seeds/*/$(index)))
one_seed := $(and $(UNIT_SEEDS),--gtest_filter='-$(later_seeds)')

# The tests of a program on all processors, each of which has a share of them.
in_shards = @for shard in $$(seq $(JOBS)); do \
		GTEST_TOTAL_SHARDS=$(JOBS) GTEST_SHARD_INDEX=$$((shard - 1)) $(1) --gtest_brief=1 $(one_seed) & \
		pids="$$pids $$!"; \
	done; for pid in $$pids; do wait $$pid || bad=1; done; exit $${bad:-0}

define compiler_rules
$(out)/$(1)/net/%.o: $(top)/net/%.cc
	@mkdir -p $$(@D)
	$(1) $(common) $(flags_$(1)) $(feedback_$(1)) $(core_flags) -c $$< -o $$@
$(out)/$(1)/drivers/%.o: $(top)/drivers/%.cc
	@mkdir -p $$(@D)
	$(1) $(common) $(flags_$(1)) $(feedback_$(1)) $(core_flags) -c $$< -o $$@
$(out)/$(1)/precompiled.h.gch: $(top)/selftests/unit/precompiled.h
	@mkdir -p $$(@D)
	@cp $$< $$(@D)/precompiled.h
	$(1) $(common) $(test_flags) $(flags_$(1)) $(header_$(1)) -x c++-header $$< -o $$@
$(out)/$(1)/selftests/unit/%.o: $(top)/selftests/unit/%.cc $(out)/$(1)/precompiled.h.gch
	@mkdir -p $$(@D)
	$(1) $(common) $(test_flags) $(flags_$(1)) $(call precompiled_$(1),$(out)/$(1)) -c $$< -o $$@
$(out)/$(1)/%.o: $(top)/%.cc
	@mkdir -p $$(@D)
	$(1) $(common) $(flags_$(1)) $(feedback_$(1)) -c $$< -o $$@

lib_$(1) := $(patsubst $(top)/%.cc,$(out)/$(1)/%.o,$(core) $(sim))
$(out)/$(1)/unit: $$(lib_$(1)) $(patsubst $(top)/%.cc,$(out)/$(1)/%.o,$(unit) $(coverage))
	$(1) $(sanitize) -pthread $$^ -lgtest_main -lgtest -o $$@
$(out)/$(1)/sim: $$(lib_$(1)) $(patsubst $(top)/%.cc,$(out)/$(1)/%.o,$(program))
	$(1) $(sanitize) -pthread $$^ -o $$@

.PHONY: unit-$(1)
unit-$(1): $(out)/$(1)/unit
	$$(call in_shards,$$<)
endef
compilers := g++ clang++-19
$(foreach compiler,$(compilers),$(eval $(call compiler_rules,$(compiler))))
unit: $(HOST:%=unit-%)

# Code that only Clang's thread-safety analysis refuses.
refused := $(wildcard $(top)/selftests/unit/refused/*.cc)
analyse := clang++-19 -std=c++23 -fsyntax-only $(warnings) $(includes)
refused:
	@set -e; for file in $(refused); do \
		$(analyse) $$file; \
		if $(analyse) $(flags_clang++-19) $$file 2>/dev/null; then echo "not refused: $$file"; exit 1; fi; \
	done; set -- $(refused); echo "$$# passed, 0 failed"

# The fuzzers: the objects of the unit tests, another main().
fuzz_cc := clang++-19
fuzz_lib := $(lib_$(fuzz_cc)) $(patsubst $(top)/%.cc,$(out)/$(fuzz_cc)/%.o,$(coverage) $(fuzz_parts))
fuzz_programs := $(patsubst $(top)/selftests/fuzz/%_fuzz.cc,$(out)/fuzz/%,$(fuzzers))
.SECONDARY: $(patsubst $(top)/%.cc,$(out)/$(fuzz_cc)/%.o,$(fuzzers))
$(fuzz_programs): $(out)/fuzz/%: $(out)/$(fuzz_cc)/selftests/fuzz/%_fuzz.o $(fuzz_lib)
	@mkdir -p $(@D)
	$(fuzz_cc) -fsanitize=address,undefined,fuzzer $^ -o $@

# New inputs stay in build/; the repository's corpora are in selftests/fuzz/corpus/.
fuzz: $(fuzz_programs)
	@for program in $(fuzz_programs); do \
		name=$$(basename $$program); mkdir -p $(out)/fuzz/found/$$name; \
		echo "fuzz $$name for $(FUZZ_SECONDS) s"; \
		$$program -max_total_time=$(FUZZ_SECONDS) $(addprefix -seed=,$(FUZZ_SEED)) -max_len=4096 \
			-print_final_stats=1 -verbosity=0 -artifact_prefix=$(out)/fuzz/ \
			$(out)/fuzz/found/$$name $(top)/selftests/fuzz/corpus/$$name \
			> $(out)/fuzz/$$name.log 2>&1 || { tail -40 $(out)/fuzz/$$name.log; exit 1; }; \
		grep -E 'executed_units|new_units' $(out)/fuzz/$$name.log; \
	done; set -- $(fuzz_programs); echo "$$# passed, 0 failed"

# The rules are in .clang-tidy.
tidy:
	@echo '$(core)' | xargs -n 6 -P $(JOBS) sh -c \
		'clang-tidy-19 --quiet --warnings-as-errors="*" "$$@" -- -std=c++23 $(includes)' tidy

-include $(shell test -d $(out) && find $(out) -name '*.d')

# The campaign runs with the first compiler only: the unit tests find differences between compilers.
simulator := $(out)/$(firstword $(HOST))/sim
sim: $(simulator)
ifdef SEED
	$(simulator) --suite $(SUITE) --seed $(SEED)
else
	$(simulator) --suite $(SUITE) --first $(FIRST) --seeds $(SEEDS) --jobs $(JOBS) $(FRESH:%=--seconds %)
endif

fast_flags := $(filter-out -fsanitize% -fno-sanitize% -O1,$(common)) -O2 -fno-strict-aliasing
fast := $(patsubst $(top)/%.cc,$(out)/fast/%.o,$(core) $(sim) $(program))
$(out)/fast/net/%.o: $(top)/net/%.cc
	@mkdir -p $(@D)
	$(firstword $(HOST)) $(fast_flags) $(core_flags) -c $< -o $@
$(out)/fast/drivers/%.o: $(top)/drivers/%.cc
	@mkdir -p $(@D)
	$(firstword $(HOST)) $(fast_flags) $(core_flags) -c $< -o $@
$(out)/fast/precompiled.h.gch: $(top)/selftests/unit/precompiled.h
	@mkdir -p $(@D)
	@cp $< $(@D)/precompiled.h
	$(firstword $(HOST)) $(fast_flags) $(test_flags) $(header_$(firstword $(HOST))) -x c++-header $< -o $@
$(out)/fast/selftests/unit/%.o: $(top)/selftests/unit/%.cc $(out)/fast/precompiled.h.gch
	@mkdir -p $(@D)
	$(firstword $(HOST)) $(fast_flags) $(test_flags) $(call precompiled_$(firstword $(HOST)),$(out)/fast) -c $< -o $@
$(out)/fast/%.o: $(top)/%.cc
	@mkdir -p $(@D)
	$(firstword $(HOST)) $(fast_flags) -c $< -o $@
$(out)/fast/sim: $(fast)
	$(firstword $(HOST)) -pthread $^ -o $@
# The unit tests without sanitizers: for mutants, and for the compiler whose sanitizers are not needed a second time.
fast_unit := $(patsubst $(top)/%.cc,$(out)/fast/%.o,$(core) $(sim) $(unit) $(coverage))
$(out)/fast/unit: $(fast_unit)
	$(firstword $(HOST)) -pthread $^ -lgtest_main -lgtest -o $@
.PHONY: unit-fast
unit-fast: $(out)/fast/unit
	$(call in_shards,$<)
campaign: $(out)/fast/sim
	$< --suite $(SUITE) --first $(FIRST) --seeds $(SEEDS) --jobs $(JOBS) $(FRESH:%=--seconds %)

# Known bugs, planted: the simulator must find each.
fast_compile := $(firstword $(HOST)) $(filter-out -MMD -MP,$(fast_flags)) $(core_flags)
bites: $(out)/fast/sim
	selftests/sim/bites.py --out $(out) --compile '$(fast_compile)' --link '$(firstword $(HOST)) -pthread' \
		--first $(FIRST) --only '$(PLANT)' $(fast)

# Finds changes of core that no test notices. MUTATE= holds options for scripts/mutate.py.
.PHONY: mutate
mutate: $(out)/fast/unit $(out)/fast/sim
	scripts/mutate.py --out $(out) --compile '$(fast_compile)' --link '$(firstword $(HOST)) -pthread' \
		--unit $(fast_unit) --sim $(fast) $(MUTATE)
