# SPDX-License-Identifier: GPL-2.0
# Test programs for virtual machines, included by the Makefile of a protocol's folder: static, so that they run without
# other files. A program is a folder of sources, or one source, linked with the helpers in lib/; one that is
# called fuzz, or ends in _fuzz, gets those in lib/fuzz/, too, others those of the folders $(also_PROGRAM) of lib/;
# $(libs_PROGRAM) are libraries of the system that it needs.
# Its name begins with $(prefix), because in a machine, and in the plan, all protocols' programs are side by side.

here := $(dir $(abspath $(firstword $(MAKEFILE_LIST))))
top := $(here)../
subject := $(notdir $(here:/=))
O ?= ../../build/selftests
CC ?= gcc
CFLAGS ?= -O2 -g
CHECKED = -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	  -Wmissing-prototypes -Wno-missing-field-initializers \
	  -ffile-prefix-map=$(abspath $(top))/= -I$(top)lib $(includes)
LINK = -static -pthread

lib := $(wildcard $(top)lib/*.c)
folders := $(patsubst $(here)%/,%,$(dir $(wildcard $(here)*/main.c)))
singles := $(patsubst $(here)%.c,%,$(wildcard $(here)*.c))
programs := $(folders) $(singles)

all: $(addprefix $(O)/$(prefix),$(programs))

helpers = $(lib) $(if $(filter fuzz %_fuzz,$(1)),$(wildcard $(top)lib/fuzz/*.c)) \
	  $(foreach folder,$(also_$(1)),$(wildcard $(top)lib/$(folder)/*.c))
object = $(patsubst $(top)lib/%.c,$(O)/obj/lib/%.o,$(1))
sources = $(if $(filter $(1),$(folders)),$(wildcard $(here)$(1)/*.c),$(here)$(1).c)

$(O)/obj/lib/%.o: $(top)lib/%.c
	@mkdir -p $(@D)
	$(CC) $(CHECKED) $(CFLAGS) -MMD -c -o $@ $<

$(O)/obj/$(subject)/%.o: $(here)%.c
	@mkdir -p $(@D)
	$(CC) $(CHECKED) $(CFLAGS) -MMD -c -o $@ $<

define program
$(O)/$(prefix)$(1): $(patsubst $(here)%.c,$(O)/obj/$(subject)/%.o,$(call sources,$(1))) $(call object,$(call helpers,$(1)))
	$(CC) $(CFLAGS) $(LINK) -o $$@ $$^ $$(libs_$(1))
endef
$(foreach p,$(programs),$(eval $(call program,$(p))))

clean:
	rm -rf $(O)

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
.PHONY: all clean
