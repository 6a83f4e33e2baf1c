// SPDX-License-Identifier: GPL-2.0
#pragma once

#include "link.h"

namespace test {

inline constexpr kapi_u8 all =
    KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE | KAPI_ACCESS_REMOTE_READ | KAPI_ACCESS_REMOTE_ATOMIC;

// A region of side's own memory, valid under a key.
struct Region {
    kapi_map map;
    kapi_mr* mr;
    bool mapped;

    // The memory's bytes from offset on.
    bool open(Side& side, kapi_size offset, kapi_size length, kapi_u8 access)
    {
        const kapi_segment segment{side.memory + offset, nullptr, 0, static_cast<kapi_u32>(length)};
        CHECK(kapi_map_segments(&map, side.dev, &segment, 1, KAPI_MAP_BOTH, KAPI_SLEEP) == 0);
        mapped = true;
        CHECK(kapi_mr_alloc(side.pd, 16, 0, &mr) == 0);
        CHECK(kapi_mr_map(mr, &map) == 0);
        return validate(side, access);
    }
    bool validate(Side& side, kapi_u8 access)
    {
        kapi_wr wr{};
        wr.op = KAPI_WR_REGISTER;
        wr.flags = KAPI_WR_SIGNALED;
        wr.mr = mr;
        wr.access = access;
        CHECK(side.send(wr, 0, 0) == 0);
        const kapi_wc* wc = side.next();
        CHECK(wc && wc->status == KAPI_WC_OK && wc->op == KAPI_WC_REGISTER);
        return true;
    }
    bool invalidate(Side& side)
    {
        kapi_wr wr{};
        wr.op = KAPI_WR_INVALIDATE;
        wr.flags = KAPI_WR_SIGNALED;
        wr.key = kapi_mr_key(mr);
        CHECK(side.send(wr, 0, 0) == 0);
        const kapi_wc* wc = side.next();
        CHECK(wc && wc->status == KAPI_WC_OK && wc->op == KAPI_WC_REGISTER);
        return true;
    }
    ~Region()
    {
        kapi_mr_free(mr);
        if (mapped)
            kapi_unmap(&map);
    }
};

} // namespace test
