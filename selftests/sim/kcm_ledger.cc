// SPDX-License-Identifier: GPL-2.0
#include "kcm_ledger.h"

#include <kapi/sim/sim.h>

#include <algorithm>
#include <cstring>

namespace {

struct Label {
    std::uint32_t sender;
    std::uint32_t check; // of the others
    std::uint64_t number;
};
static_assert(4 + sizeof(Label) == KcmLedger::smallest);

std::uint32_t check_of(std::uint32_t sender, std::uint64_t number, std::size_t size)
{
    std::uint64_t sum = 0x4b434d21;
    for (std::uint64_t value : {std::uint64_t{sender}, number, std::uint64_t{size}})
        sum = (sum ^ value) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::uint32_t>(sum >> 32);
}

unsigned char pattern(std::uint32_t check, std::size_t i)
{
    return static_cast<unsigned char>(check + i * 7 + i / 253);
}

} // namespace

std::vector<unsigned char> KcmLedger::compose(std::uint32_t sender, std::size_t size, std::uint64_t behind)
{
    Flow &flow = flows_[sender];
    std::uint64_t number = flow.sent + behind; // of one that was composed and never sent, the number is free
    flow.composed = std::max(flow.composed, number + 1);
    // One begun before the calm may have been given to a connection that has ended since.
    if (calm_ && flow.calm_from == ~std::uint64_t{0})
        flow.calm_from = flow.sent;
    Label label{sender, 0, number};
    label.check = check_of(sender, label.number, size);
    std::vector<unsigned char> bytes(size);
    std::size_t payload = size - 4;
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = static_cast<unsigned char>(payload >> (24 - 8 * i));
    std::memcpy(bytes.data() + 4, &label, sizeof(label));
    for (std::size_t i = smallest; i < size; i++)
        bytes[i] = pattern(label.check, i);
    return bytes;
}

void KcmLedger::sent(std::uint32_t sender)
{
    flows_[sender].sent++;
}

bool KcmLedger::is_message(const unsigned char *bytes, std::size_t size) const
{
    Label label;
    std::memcpy(&label, bytes + 4, sizeof(label));
    return label.check == check_of(label.sender, label.number, size) && flows_.contains(label.sender);
}

void KcmLedger::received_cut(std::uint64_t place, bool ordered, const unsigned char *bytes, std::size_t shown, std::size_t size)
{
    Label label;
    if (shown < smallest)
        sim::broken("a message of %zu bytes arrived that was never sent", shown);
    std::memcpy(&label, bytes + 4, sizeof(label));
    auto number = static_cast<unsigned long long>(label.number);
    if (!is_message(bytes, size))
        sim::broken("a message arrived damaged");
    for (std::size_t i = smallest; i < shown; i++)
        if (bytes[i] != pattern(label.check, i))
            sim::broken("message %llu of sender %u arrived with byte %zu of %zu changed", number, label.sender, i, size);
    Flow &flow = flows_[label.sender];
    if (label.number >= flow.composed)
        sim::broken("message %llu of sender %u arrived and was not sent", number, label.sender);
    flow.seen.resize(std::max<std::size_t>(flow.seen.size(), label.number + 1));
    if (flow.seen[label.number])
        sim::broken("message %llu of sender %u arrived twice", number, label.sender);
    flow.seen[label.number] = true;
    std::uint64_t &next = next_[{place, label.sender}];
    if (ordered && label.number < next)
        sim::broken("message %llu of sender %u arrived after message %llu", number, label.sender,
                    static_cast<unsigned long long>(next - 1));
    next = label.number + 1;
    total_++;
}

bool KcmLedger::has_arrived(std::uint32_t sender, std::uint64_t number) const
{
    auto flow = flows_.find(sender);
    return flow != flows_.end() && number < flow->second.seen.size() && flow->second.seen[number];
}

bool KcmLedger::has_arrived(std::uint32_t sender) const
{
    auto flow = flows_.find(sender);
    return flow == flows_.end() || !lost(flow->second, false);
}

std::uint64_t KcmLedger::sent_by(std::uint32_t sender) const
{
    auto flow = flows_.find(sender);
    return flow == flows_.end() ? 0 : flow->second.sent;
}

void KcmLedger::expect_sent() const
{
    for (const auto &[sender, flow] : flows_)
        if (flow.seen.size() > flow.sent)
            sim::broken("message %llu of sender %u arrived although sending it had failed",
                        static_cast<unsigned long long>(flow.sent), sender);
}

std::uint64_t KcmLedger::next_lost(const Flow &flow, std::uint64_t from)
{
    while (from < flow.sent && from < flow.seen.size() && flow.seen[from])
        from++;
    return from;
}

std::uint64_t KcmLedger::lost(const Flow &flow, bool excused) const
{
    std::uint64_t count = 0;
    for (std::uint64_t i = next_lost(flow, flow.asked(excused)); i < flow.sent; i = next_lost(flow, i + 1))
        count++;
    return count;
}

bool KcmLedger::all_received(bool excused) const
{
    return std::all_of(flows_.begin(), flows_.end(), [&](const auto &flow) { return !lost(flow.second, excused); });
}

std::string KcmLedger::missing(bool excused) const
{
    std::string text;
    for (const auto &[sender, flow] : flows_)
        if (std::uint64_t count = lost(flow, excused))
            text += " " + std::to_string(count) + " of sender " + std::to_string(sender) + ", the first " +
                    std::to_string(next_lost(flow, flow.asked(excused)));
    return text;
}
