// SPDX-License-Identifier: GPL-2.0
#include "kcm_profile.h"

#include "kcm_ledger.h"
#include "net/kcm/uapi.h"

KcmProfile::KcmProfile(sim::Random &random)
{
    static constexpr std::size_t kSizes[] = {100, 3000, 20'000, kLargest};
    plain = random.one_in(3);
    churn = random.one_in(2);
    bad_memory = random.one_in(3);
    seqpacket = random.one_in(2);
    splices = random.one_in(3);
    answers = random.one_in(3);
    falls = random.one_in(3) ? static_cast<unsigned>(random.between(1, 3)) : 0;
    connections = static_cast<unsigned>(random.between(1, 4));
    sockets = static_cast<unsigned>(random.between(1, 4));
    largest = kSizes[random.below(4)];
    messages = static_cast<unsigned>(random.between(10, largest > 3000 ? 40 : 200));
    sndbuf = random.one_in(2) ? 212'992 : static_cast<kapi_u32>(random.between(2000, 60'000));
    rcvbuf = random.one_in(2) ? 212'992 : static_cast<kapi_u32>(random.between(2000, 60'000));
    tcp_sndbuf = random.one_in(2) ? 0 : static_cast<kapi_u32>(random.between(4000, 60'000));
    tcp_rcvbuf = random.one_in(2) ? 0 : static_cast<kapi_u32>(random.between(4000, 60'000));
    reset_after = random.one_in(2) ? 0 : 2 * largest + random.between(1000, 300'000); // some messages get through
    fail_one_in = random.one_in(3) ? random.between(10, 300) : 0;
    steering = static_cast<int>(random.between(KCM_ABI_STEER_ROUND_ROBIN, KCM_ABI_STEER_CPU));
    lengths = random.one_in(3);
}

std::string KcmProfile::describe() const
{
    auto number = [](const char *name, std::uint64_t value) { return std::string(", ") + name + " " + std::to_string(value); };
    return std::string(plain ? "KCM to plain TCP" : "KCM to KCM") + (seqpacket ? ", SOCK_SEQPACKET" : ", SOCK_DGRAM") +
           number("connections", connections) + number("sockets", sockets) + number("messages", messages) +
           number("of at most", largest) + number("sndbuf", sndbuf) + number("rcvbuf", rcvbuf) +
           number("TCP", tcp_sndbuf) + number("and", tcp_rcvbuf) + number("reset after", reset_after) +
           number("allocations fail one in", fail_one_in) + number("falls", falls) +
           number("steering", static_cast<std::uint64_t>(steering)) + (churn ? ", churn" : "") +
           (bad_memory ? ", bad memory" : "") + (splices ? ", splices" : "") + (answers ? ", answers" : "") +
           (lengths ? ", lengths" : "");
}
