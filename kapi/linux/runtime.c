// SPDX-License-Identifier: GPL-2.0
/*
 * The C++ runtime: what the compiler may call on its own account. The names are those of the Itanium C++ ABI,
 * which are C identifiers, so that they can be exported with a version like any other function.
 */

#include <linux/bug.h>
#include <linux/module.h>

#include <kapi/memory.h>

void __cxa_pure_virtual(void);
void _ZdlPv(void *memory);
void _ZdlPvm(void *memory, size_t size);

/*
 * What a pure virtual function points to: reached only when an object is used while it is being made or
 * destroyed.
 */
void __cxa_pure_virtual(void)
{
	WARN(1, "hawser: pure virtual function called\n");
}
EXPORT_SYMBOL_GPL(__cxa_pure_virtual);

/* operator delete(void *): a virtual destructor refers to it even without a delete. */
void _ZdlPv(void *memory)
{
	kapi_free(memory);
}
EXPORT_SYMBOL_GPL(_ZdlPv);

/* operator delete(void *, size_t). */
void _ZdlPvm(void *memory, size_t size)
{
	kapi_free(memory);
}
EXPORT_SYMBOL_GPL(_ZdlPvm);
