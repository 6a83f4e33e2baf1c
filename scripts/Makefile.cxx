# SPDX-License-Identifier: GPL-2.0
#
# C++ objects in Kbuild. A Kbuild file that lists objects made from .cc files includes this one after its
# list.
#
# Every code-generation flag follows the kernel at hand: the flags of a C++ object are those that Kbuild would
# give to a C object of the same name (the sanitizers' per-file rules included), less what only C understands,
# plus the few that make C++ freestanding. Nothing about the compiler's own folders is written down here: it
# is asked.

# The C++ compiler of the family, version and target of the C compiler that Kbuild uses.
hawser-cxx := $(foreach word,$(CC),$(if $(findstring /,$(word)),$(dir $(word)))$(subst \
	gcc,g++,$(subst clang,clang++,$(notdir $(word)))))

ifeq ($(shell command -v $(firstword $(hawser-cxx)) 2>/dev/null),)
$(error hawser: the C++ compiler $(hawser-cxx) is missing. The kernel uses $(CC) and the modules need its C++ \
	counterpart: install it (Debian: the package g++ of the same version))
endif

# A C++ object with the ABI of another compiler than the kernel's mostly works, and nobody should have to
# guess why when it does not.
ifdef CONFIG_CC_IS_GCC
hawser-cxx-major := $(shell $(hawser-cxx) -dumpversion | cut -d. -f1)
hawser-kernel-major := $(shell expr $(CONFIG_GCC_VERSION) / 10000)
ifneq ($(hawser-cxx-major),$(hawser-kernel-major))
$(warning hawser: the kernel was built by gcc $(hawser-kernel-major), the modules are being \
	built by gcc $(hawser-cxx-major). Install gcc-$(hawser-kernel-major) and g++-$(hawser-kernel-major), or expect \
	the modules to be refused or to misbehave)
endif
endif

# What only C understands is found by trying, for each kernel brings new flags.
hawser-c-only := $(shell echo | LC_ALL=C $(hawser-cxx) -x c++ -fsyntax-only \
	$(filter-out -std=% -Werror,$(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE)) - 2>&1 | \
	sed -n -e "s/.*\(option\|argument\) '\(-[^']*\)' is .*valid .*C++.*/\2/p" \
	       -e "s/.*unrecognized command-line option '\(-[^']*\)'.*/\1/p")
hawser-c-only += -std=% -fplugin=% -fplugin-arg-%

# The compiler's own headers and the freestanding part of its C++ library; glibc's features.h, which that
# library asks for, has a stand-in.
hawser-cxx-includes := $(shell $(hawser-cxx) -v -x c++ -E /dev/null 2>&1 >/dev/null | \
	sed -n '/^\#include </,/^End/s/^ //p' | \
	while read -r dir; do \
		[ ! -e "$$dir/type_traits" ] && [ ! -e "$$dir/bits/c++config.h" ] || realpath "$$dir"; \
	done) $(shell $(hawser-cxx) -print-file-name=include)

hawser-cxxflags = $(filter-out $(hawser-c-only), \
		$(subst $(LINUXINCLUDE),,$(subst -include $(srctree)/include/linux/compiler_types.h,,$(c_flags)))) \
	-std=gnu++23 -ffreestanding -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit \
	-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-gnu-unique -Wextra -Wno-missing-field-initializers \
	-isystem $(src)/include/hawser/freestanding $(addprefix -isystem ,$(hawser-cxx-includes))

# A function's cold part is found by objtool through its name, of which it reads 128 characters: less than C++
# may need.
hawser-cxxflags += -fno-reorder-blocks-and-partition

quiet_cmd_cxx_o_cc = CXX $(quiet_modtag) $@
      cmd_cxx_o_cc = $(hawser-cxx) $(hawser-cxxflags) -c -o $@ $< $(cmd_objtool)

define rule_cxx_o_cc
	$(call cmd_and_fixdep,cxx_o_cc)
	$(call cmd,gen_objtooldep)
	$(call cmd,record_mcount)
endef

$(obj)/%.o: $(src)/%.cc FORCE
	$(call if_changed_rule,cxx_o_cc)

# Inline and template functions come in groups, which the final link would keep apart.
ldflags-y += --force-group-allocation

# MODVERSIONS does not see what is behind an opaque pointer, so modules that belong together share a symbol
# named after the headers between them: -DNAME=name_$(call hawser-hash,header...). A module of another build
# is then refused.
hawser-hash = $(shell cd $(src) && cat $(1) | sha1sum | cut -c1-12)
ccflags-y += -DKAPI_ABI=kapi_abi_$(call hawser-hash,include/kapi/*.h)
ccflags-y += -DRDS_TRANSPORT_ABI=rds_transport_abi_$(call hawser-hash,net/rds/transport.h)

# The sizes of what kapi keeps in opaque storage depend on the kernel's configuration: C tells them, the way
# the kernel makes its asm-offsets.h, before anything else is compiled.
hawser-sizes := $(obj)/build/include/kapi_sizes.h
ccflags-y += -I$(src)/include -I$(src)/net -I$(obj)/build/include

targets += kapi/linux/sizes.s build/include/kapi_sizes.h

$(hawser-sizes): $(obj)/kapi/linux/sizes.s FORCE
	$(call filechk,offsets,KAPI_SIZES_H)

$(addprefix $(obj)/,$(foreach module,$(obj-m),$($(module:.o=-y)))): $(hawser-sizes)

clean-files += build/include/kapi_sizes.h
