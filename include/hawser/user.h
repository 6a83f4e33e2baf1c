// SPDX-License-Identifier: GPL-2.0
// Move-only owners of what kapi hands out: user bytes in pages, received buffers.
#pragma once

#include <hawser/memory.h>
#include <kapi/pages.h>
#include <kapi/socket.h>
#include <kapi/stream.h>

namespace hw {

inline void free_pages(kapi_pages* pages) { kapi_pages_free(pages); }
inline void free_rxbuf(kapi_rxbuf* buffer) { kapi_rxbuf_free(buffer); }

using Pages = Own<kapi_pages, free_pages>;
using RxBuffer = Own<kapi_rxbuf, free_rxbuf>;

} // namespace hw
