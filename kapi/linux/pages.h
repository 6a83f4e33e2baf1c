/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KAPI_LINUX_PAGES_H
#define KAPI_LINUX_PAGES_H

/* Gives back the pages that the CPUs keep. Nobody makes kapi_pages any more. */
void kapi_fresh_pages_free(void);

#endif
