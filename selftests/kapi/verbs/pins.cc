// SPDX-License-Identifier: GPL-2.0
// A program's memory, and buffers for what is received.
#include "link.h"

#include <kapi/stream.h>

#include "user_memory.h"

namespace test {

namespace {

// The peer writes to odd bytes of a program's memory, and reads them.
bool use_pinned(Link& link, UserMemory& user, kapi_pin* pin)
{
    Side &a = link.a, &b = link.b;
    kapi_map map;
    kapi_mr* mr = nullptr;
    CHECK(kapi_map_pin(&map, b.dev, pin, KAPI_MAP_BOTH, KAPI_ATOMIC) == 0);
    bool right = kapi_map_length(&map) == 9000 && kapi_mr_alloc(b.pd, 4, 0, &mr) == 0 && kapi_mr_map(mr, &map) == 0;
    kapi_wr wr{};
    wr.op = KAPI_WR_REGISTER;
    wr.mr = mr;
    wr.access = KAPI_ACCESS_LOCAL_WRITE | KAPI_ACCESS_REMOTE_WRITE;
    wr.flags = KAPI_WR_SIGNALED;
    right = right && b.send(wr, 0, 0) == 0 && b.next();
    kapi_fill(a.memory, 0x77, 9000);
    wr = kapi_wr{};
    wr.op = KAPI_WR_WRITE;
    wr.remote = 777;
    wr.key = mr ? kapi_mr_key(mr) : 0;
    wr.flags = KAPI_WR_SIGNALED;
    right = right && a.send(wr, 0, 9000) == 0;
    const kapi_wc* wc = right ? a.next() : nullptr;
    right = wc && wc->status == KAPI_WC_OK;
    kapi_qp_drain(b.qp);
    kapi_mr_free(mr);
    kapi_unmap(&map);
    CHECK(right);
    unsigned char ends[2];
    CHECK(verbs_test_peek(user.at + 776, ends, 2) == 0 && ends[0] == 0 && ends[1] == 0x77);
    CHECK(verbs_test_peek(user.at + 777 + 8999, ends, 2) == 0 && ends[0] == 0x77 && ends[1] == 0);
    return true;
}

} // namespace

bool pin(VerbsBench& bench)
{
    const long before = verbs_test_pinned();
    UserMemory user(16384);
    OpenLink link;
    CHECK(user.at && link && link->open(bench));
    kapi_pin* pin = nullptr;
    CHECK(kapi_pin_user(user.at + 777, 9000, 1, &pin) == 0);
    const bool counted = kapi_pin_pages(pin) == 3 && verbs_test_pinned() == before + 3;
    const bool used = use_pinned(*link, user, pin);
    kapi_unpin(pin, 1);
    CHECK(counted && used);
    CHECK(eventually([before] { return verbs_test_pinned() == before; }));
    // Pages that the program has never written to are its own all the same: it writes later, and the device sees that.
    UserMemory zeroes(4096);
    unsigned char seven = 7;
    CHECK(kapi_pin_user(zeroes.at, 4096, 0, &pin) == 0);
    kapi_map map;
    const bool mapped = kapi_map_pin(&map, link->a.dev, pin, KAPI_MAP_TO_DEVICE, KAPI_SLEEP) == 0;
    kapi_map_place place{};
    kapi_size length = 1;
    kapi_sge sge{};
    const bool right = mapped && verbs_test_poke(zeroes.at, &seven, 1) == 0 &&
                       kapi_map_sges(&map, &place, &length, link->a.pd, &sge, 1) == 1 &&
                       *reinterpret_cast<unsigned char*>(sge.address) == 7;
    if (mapped)
        kapi_unmap(&map);
    kapi_unpin(pin, 0);
    kapi_unpin(nullptr, 0);
    CHECK(right);
    return true;
}

bool pin_errors(VerbsBench&)
{
    UserMemory user(8192), fixed(4096, false);
    CHECK(user.at && fixed.at);
    const long before = verbs_test_pinned();
    kapi_pin* pin = nullptr;
    CHECK(kapi_pin_user(user.at, 0, 1, &pin) == -KAPI_EINVAL);
    CHECK(kapi_pin_user(user.at, (1ul << 30) + 1, 1, &pin) == -KAPI_EINVAL);
    CHECK(kapi_pin_user(~0ull - 10, 100, 1, &pin) == -KAPI_EINVAL);
    CHECK(kapi_pin_user(16, 100, 1, &pin) == -KAPI_EFAULT);
    CHECK(kapi_pin_user(0xffff'8880'0000'0000, 100, 1, &pin) == -KAPI_EFAULT);
    CHECK(kapi_pin_user(fixed.at, 100, 1, &pin) == -KAPI_EFAULT);
    CHECK(kapi_pin_user(fixed.at, 100, 0, &pin) == 0);
    kapi_unpin(pin, 0);
    // The first page is there, the last is not.
    verbs_test_munmap(user.at + 4096, 4096);
    CHECK(kapi_pin_user(user.at, 8192, 1, &pin) == -KAPI_EFAULT);
    CHECK(eventually([before] { return verbs_test_pinned() == before; }));
    return true;
}

// The scene allows 64 KiB.
bool pin_limit(VerbsBench&)
{
    UserMemory user(16 * 4096);
    CHECK(user.at);
    kapi_pin *first = nullptr, *second = nullptr;
    verbs_test_unprivileged(1);
    const int whole = kapi_pin_user(user.at, 16 * 4096, 1, &first);
    const int beyond = kapi_pin_user(user.at, 1, 1, &second);
    bool again = whole == 0 && beyond == -KAPI_ENOMEM;
    // What is given back can be had again at once.
    for (int i = 0; again && i < 20; i++) {
        kapi_unpin(first, 1);
        again = kapi_pin_user(user.at, 16 * 4096, 1, &first) == 0;
    }
    verbs_test_unprivileged(0);
    const bool privileged = kapi_pin_user(user.at, 1, 1, &second) == 0;
    if (privileged)
        kapi_unpin(second, 0);
    if (again)
        kapi_unpin(first, 0);
    CHECK(again && privileged);
    return true;
}

namespace {

bool receive_into(Link& link, kapi_u32 size, kapi_u32 length)
{
    Side &a = link.a, &b = link.b;
    kapi_rxbuf* buffer = kapi_rxbuf_create(size, KAPI_ATOMIC);
    CHECK(buffer && kapi_rxbuf_length(buffer) == size && kapi_rxbuf_true_size(buffer) >= size);
    kapi_map map;
    CHECK(kapi_map_rxbuf(&map, b.dev, buffer) == 0);
    kapi_map_place place{};
    kapi_size left = size;
    kapi_sge sge{};
    kapi_recv_wr recv{}, *bad = nullptr;
    recv.n_sges = kapi_map_sges(&map, &place, &left, b.pd, &sge, 1);
    recv.sges = &sge;
    CHECK(left == 0 && recv.n_sges == 1 && kapi_qp_recv(b.qp, &recv, &bad) == 0);
    kapi_wr wr{};
    wr.op = KAPI_WR_SEND;
    for (kapi_u32 i = 0; i < length; i++)
        a.memory[i] = static_cast<unsigned char>(i * 5 + 1);
    CHECK(a.send(wr, 0, length) == 0);
    const kapi_wc* wc = b.next();
    CHECK(wc && wc->status == KAPI_WC_OK && wc->length == length);
    kapi_unmap(&map);
    kapi_rxbuf_trim(buffer, length);
    CHECK(kapi_rxbuf_length(buffer) == length);
    kapi_fill(a.memory + 32768, 0, 4096);
    kapi_rxbuf_copy(buffer, 3, a.memory + 32768, length - 3);
    CHECK(kapi_compare(a.memory + 3, a.memory + 32768, length - 3) == 0);
    struct What {
        kapi_rxbuf* buffer;
        kapi_u32 length;
    } what{buffer, length};
    kapi_fill(a.memory + 32768, 0, 4096);
    CHECK(verbs_test_into(a.memory + 32768, length, [](kapi_msg* msg, void* context) {
        auto* what = static_cast<What*>(context);
        return kapi_rxbuf_to_msg(what->buffer, 0, what->length, msg);
    }, &what) == 0);
    CHECK(kapi_compare(a.memory, a.memory + 32768, length) == 0);
    kapi_rxbuf_free(buffer);
    return true;
}

// More than are kept for the next ones, twice. Were one made twice, the list would have fewer or no end.
bool make_many()
{
    constexpr unsigned many = 100;
    for (unsigned round = 0; round < 2; round++) {
        kapi_rxbuf* list = nullptr;
        unsigned made = 0, found = 0;
        for (unsigned i = 0; i < many; i++) {
            kapi_rxbuf* buffer = kapi_rxbuf_create(4096, KAPI_SLEEP);
            if (!buffer)
                continue;
            made += kapi_rxbuf_length(buffer) == 4096 && !*kapi_rxbuf_next(buffer);
            *kapi_rxbuf_next(buffer) = list;
            list = buffer;
        }
        for (kapi_rxbuf* buffer = list; buffer && found < many + 1; found++)
            buffer = *kapi_rxbuf_next(buffer);
        CHECK(made == many && found == many);
        while (list) {
            kapi_rxbuf* buffer = list;
            list = *kapi_rxbuf_next(buffer);
            kapi_rxbuf_trim(buffer, 1);
            kapi_rxbuf_free(buffer);
        }
    }
    return true;
}

} // namespace

bool receive_buffers(VerbsBench& bench)
{
    OpenLink link;
    CHECK(link && link->open(bench));
    return receive_into(*link, 4096, 4096) && receive_into(*link, 4096, 100) && receive_into(*link, 100, 50) &&
           receive_into(*link, 513, 513) && receive_into(*link, 512, 511) && make_many() && receive_into(*link, 4096, 4096);
}

} // namespace test
