# SPDX-License-Identifier: GPL-2.0
# Share of the core that the host tests execute: `make coverage`. Fails below MINIMUM per cent of the lines.
#
#   make -f selftests/coverage.mk SEEDS=300    the unit tests and that many seeds of the simulator
#
# build/host/coverage/core.txt then shows the count of each line of the core.

.DEFAULT_GOAL := coverage
include $(dir $(abspath $(lastword $(MAKEFILE_LIST))))host.mk

MINIMUM ?= 90
cov_cc := clang++-19
cov := $(out)/coverage
cov_flags := $(filter-out -fsanitize% -fno-sanitize%,$(common)) -fprofile-instr-generate -fcoverage-mapping
cov_object = $(patsubst $(top)/%.cc,$(cov)/%.o,$(1))

$(cov)/net/%.o: $(top)/net/%.cc
	@mkdir -p $(@D)
	$(cov_cc) $(cov_flags) $(core_flags) -c $< -o $@
$(cov)/drivers/%.o: $(top)/drivers/%.cc
	@mkdir -p $(@D)
	$(cov_cc) $(cov_flags) $(core_flags) -c $< -o $@
$(cov)/%.o: $(top)/%.cc
	@mkdir -p $(@D)
	$(cov_cc) $(cov_flags) -c $< -o $@
$(cov)/unit: $(call cov_object,$(core) $(sim) $(unit) $(coverage))
	$(cov_cc) -fprofile-instr-generate -pthread $^ -lgtest_main -lgtest -o $@
$(cov)/sim: $(call cov_object,$(core) $(sim) $(program))
	$(cov_cc) -fprofile-instr-generate -pthread $^ -o $@

covered := $(top)/net $(top)/drivers $(top)/include/hawser
.PHONY: coverage
coverage: $(cov)/unit $(cov)/sim
	@rm -rf $(cov)/raw; mkdir -p $(cov)/raw
	LLVM_PROFILE_FILE=$(cov)/raw/unit.profraw $(cov)/unit --gtest_brief=1
	LLVM_PROFILE_FILE=$(cov)/raw/sim-%4m.profraw $(cov)/sim --first 1 --seeds $(SEEDS) --jobs $(JOBS)
	llvm-profdata-19 merge -sparse $(cov)/raw/*.profraw -o $(cov)/all.profdata
	llvm-cov-19 show $(cov)/unit -object $(cov)/sim -instr-profile=$(cov)/all.profdata $(covered) > $(cov)/core.txt
	llvm-cov-19 report $(cov)/unit -object $(cov)/sim -instr-profile=$(cov)/all.profdata -show-branch-summary \
		-show-region-summary=0 $(covered) | tee $(cov)/report.txt
	@awk -v minimum=$(MINIMUM) '$$1 == "TOTAL" { share = $$7 + 0; print share " % of the lines"; exit share < minimum }' \
		$(cov)/report.txt
