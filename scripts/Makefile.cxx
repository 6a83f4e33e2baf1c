# SPDX-License-Identifier: GPL-2.0
#
# C++ objects in Kbuild. A Kbuild file that lists objects compiled from .cc files includes this one after its
# list.
#
# All code-generation flags come from the kernel: the flags of a C++ object are those that Kbuild would
# give to a C object of the same name (the sanitizers' per-file rules included), less what only C understands,
# plus the few that make C++ freestanding. The compiler's own folders are not hard-coded: the compiler reports
# them.

# The C++ compiler of the family, version and target of the C compiler that Kbuild uses: "ccache gcc-12" has the
# counterpart "ccache g++-12". Options stay as they are.
hawser-cxx-word = $(if $(findstring /,$(1)),$(dir $(1)))$(subst gcc,g++,$(subst clang,clang++,$(notdir $(1))))
hawser-cxx := $(foreach word,$(CC),$(if $(filter -%,$(word)),$(word),$(call hawser-cxx-word,$(word))))

# Its version text: empty when it is not installed.
hawser-cxx-macros := $(shell $(hawser-cxx) -std=gnu++23 -x c++ -include expected -E -dM /dev/null 2>/dev/null | \
	sed -n 's/^.define \(__clang_major__\|__GNUC__\|__cpp_lib_expected\) /\1=/p')
hawser-cxx-macro = $(patsubst $(1)=%,%,$(filter $(1)=%,$(hawser-cxx-macros)))
hawser-cxx-family := $(if $(shell $(CC) -dM -E -x c /dev/null 2>/dev/null | grep -w __clang__),clang,gcc)

ifeq ($(shell $(hawser-cxx) --version 2>/dev/null),)
$(error hawser: the C++ compiler $(hawser-cxx) is missing. The kernel uses $(CC) and the modules need its C++ \
	counterpart: install it (Debian: the package g++ or clang of the same version))
endif
hawser-kernel-family := $(if $(CONFIG_CC_IS_CLANG),clang,gcc)
ifneq ($(hawser-cxx-family),$(hawser-kernel-family))
$(error hawser: the kernel was built by $(hawser-kernel-family), whose options $(CC) does not understand. Leave CC out, or \
	name a $(hawser-kernel-family))
endif
ifeq ($(call hawser-cxx-macro,__cpp_lib_expected),)
$(error hawser: $(hawser-cxx) has no std::expected of C++23. The modules need g++ 12 or newer, or clang++ 19 or newer \
	with the C++ library of gcc 12 or newer)
endif

# A C++ object with the ABI of another compiler than the kernel's mostly works; report the difference, because
# failures are hard to explain.
hawser-cxx-major := $(call hawser-cxx-macro,$(if $(CONFIG_CC_IS_CLANG),__clang_major__,__GNUC__))
hawser-kernel-major := $(shell expr $(or $(if $(CONFIG_CC_IS_CLANG),$(CONFIG_CLANG_VERSION),$(CONFIG_GCC_VERSION)),0) / 10000)
ifneq ($(hawser-cxx-major),$(hawser-kernel-major))
$(warning hawser: the kernel was built by $(hawser-kernel-family) $(hawser-kernel-major), the modules are being \
	built by $(hawser-cxx-family) $(hawser-cxx-major). Install version $(hawser-kernel-major) of the C and C++ compiler, \
	or expect the modules to be refused or to misbehave)
endif

# Flags that only C accepts are found by trying them, because each kernel brings new ones.
hawser-c-only := $(shell echo | LC_ALL=C $(hawser-cxx) -x c++ -fsyntax-only \
	$(filter-out -std=% -Werror,$(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) $(KBUILD_CFLAGS_MODULE)) - 2>&1 | \
	sed -n -e "s/.*\(option\|argument\) '\(-[^']*\)' is .*valid .*C++.*/\2/p" \
	       -e "s/.*unrecognized command-line option '\(-[^']*\)'.*/\1/p" \
	       -e "s/.*unknown argument: '\(-[^']*\)'.*/\1/p")
# Plugins of gcc are written for C: what they would add (STACKLEAK, latent entropy, random layouts) C++ objects lack.
hawser-c-only += -std=% -fplugin=% -fplugin-arg-%

# The compiler's own headers and the freestanding part of its C++ library; glibc's features.h, which that
# library includes, has a substitute.
hawser-cxx-includes := $(shell $(hawser-cxx) -v -x c++ -E /dev/null 2>&1 >/dev/null | \
	sed -n '/^\#include </,/^End/s/^ //p' | \
	while read -r dir; do \
		[ ! -e "$$dir/type_traits" ] && [ ! -e "$$dir/bits/c++config.h" ] || realpath "$$dir"; \
	done) $(shell $(hawser-cxx) -print-file-name=include)

hawser-cxxflags = $(filter-out $(hawser-c-only), \
		$(subst $(LINUXINCLUDE),,$(subst -include $(srctree)/include/linux/compiler_types.h,,$(c_flags)))) \
	-std=gnu++23 -ffreestanding -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit \
	-fno-asynchronous-unwind-tables -fno-unwind-tables -Wextra -Wno-missing-field-initializers \
	-isystem $(src)/include/hawser/freestanding $(addprefix -isystem ,$(hawser-cxx-includes))

# objtool finds a function's cold part by its name, of which it reads 128 characters: fewer than C++
# may need.
hawser-cxxflags += $(if $(CONFIG_CC_IS_GCC),-fno-gnu-unique -fno-reorder-blocks-and-partition)

# On arm64 the compiler would call functions of its library for atomic operations, which a kernel lacks.
hawser-cxxflags += $(call cc-option,-mno-outline-atomics)

# clang rejects the C++ library's long double code, used or not, where the x87 floating point unit is disabled.
hawser-cxxflags += $(if $(CONFIG_CC_IS_CLANG),-m80387)

# Type information of a module is made by pahole, which stops at the first C++ type unless our wrapper runs it. Make
# -C KDIR M= and DKMS run the system's pahole: then C++ is compiled without debugging information.
hawser-cxxflags += $(if $(CONFIG_DEBUG_INFO_BTF_MODULES),$(if $(findstring /scripts/pahole,$(PAHOLE)),,-g0))

# Identical objects in every build folder. A kernel with CFI stops a call through a pointer of another type.
ccflags-y += -ffile-prefix-map=$(src)/= $(if $(CONFIG_CC_IS_CLANG),-Wcast-function-type-strict)

# Inline and template functions come in groups, of which a link keeps one. Where objtool reads each object on its own, its
# tables name the sections of groups that would then be dropped, and the link fails: there each object keeps its copies.
hawser-ungroup = $(LD) $(KBUILD_LDFLAGS) -r --force-group-allocation -o $@.tmp $@; mv $@.tmp $@

quiet_cmd_cxx_o_cc = CXX $(quiet_modtag) $@
      cmd_cxx_o_cc = $(hawser-cxx) $(hawser-cxxflags) -c -o $@ $<$(if $(delay-objtool),,; $(hawser-ungroup)) $(cmd_objtool)

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
# In 6.14 and in earlier stable kernels.
ccflags-y += $(if $(shell grep -l 'sk_net_refcnt_upgrade' $(srctree)/include/net/sock.h),-DKAPI_HAS_SK_NET_REFCNT_UPGRADE)
ccflags-y += -DRDS_TRANSPORT_ABI=rds_transport_abi_$(call hawser-hash,net/rds/transport.h)

# The version stands in debian/changelog alone. The prefix tells these modules from the kernel's own, and DKMS, which compares
# versions, installs them although the kernel's own rds says 4.0.
ccflags-y += -DHAWSER_VERSION='"hawser-$(shell sed -n '1s/.*(\(.*\)).*/\1/p' $(src)/debian/changelog)"'

# The sizes of what kapi keeps in opaque storage depend on the kernel's configuration: a C file exports them, as
# the kernel does with asm-offsets.h, before anything else is compiled.
hawser-sizes := $(obj)/build/include/kapi_sizes.h
ccflags-y += -I$(src)/include -I$(src)/net -I$(obj)/build/include

targets += kapi/linux/sizes.s build/include/kapi_sizes.h

$(hawser-sizes): $(obj)/kapi/linux/sizes.s FORCE
	$(call filechk,offsets,KAPI_SIZES_H)

$(addprefix $(obj)/,$(foreach module,$(obj-m),$($(module:.o=-y)))): $(hawser-sizes)

clean-files += build/include/kapi_sizes.h
