// SPDX-License-Identifier: GPL-2.0
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <kapi/host.h>

#include "node.h"

using namespace sim;

struct kapi_report {
    Report contents;
    std::vector<Attribute> open; // attributes that have begun
    kapi_net *net;
    std::size_t bytes = 0;
};

namespace {

constexpr std::size_t kDepth = 2; // as the kernel's has it
constexpr std::size_t kRoom = 3776 - 20; // of the smallest message that the kernel makes, without its headers

/** The room that a report has lost: to an attribute with so many bytes. */
void take(kapi_report *report, std::size_t contents)
{
    report->bytes += 4 + (contents + 3) / 4 * 4;
    if (report->bytes > kRoom)
        broken("a report has no room in a message");
}

void add(kapi_report *report, Attribute attribute)
{
    (report->open.empty() ? report->contents.attributes : report->open.back().nested).push_back(std::move(attribute));
}

std::string ip_text(const std::string &bytes)
{
    auto at = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(bytes[i])); };
    std::string text;
    char part[8];
    for (std::size_t i = 0; i < bytes.size(); i += bytes.size() == 4 ? 1 : 2) {
        if (bytes.size() == 4)
            std::snprintf(part, sizeof(part), "%u", at(i));
        else
            std::snprintf(part, sizeof(part), "%x", at(i) << 8 | at(i + 1));
        text += (i ? bytes.size() == 4 ? "." : ":" : "") + std::string(part);
    }
    return text;
}

} // namespace

namespace sim {

std::vector<const Attribute *> Report::all(const std::vector<Attribute> &of, std::uint16_t type)
{
    std::vector<const Attribute *> found;
    for (const Attribute &one : of)
        if (one.type == type)
            found.push_back(&one);
    return found;
}

std::string Report::text(const std::vector<Attribute> &of, std::uint16_t type)
{
    std::vector<const Attribute *> found = all(of, type);
    if (found.empty())
        return "";
    if (found.size() > 1)
        broken("a report has attribute %u %zu times", type, found.size());
    const Attribute &one = *found[0];
    if (one.is_number)
        return std::to_string(one.number);
    return one.is_text ? one.bytes : ip_text(one.bytes);
}

std::vector<Report> dump(std::uint8_t command, const Next &next, std::uint32_t choice)
{
    std::vector<Report> all;
    kapi_report_place place{.choice = choice, .step = 0, .words = {}};
    for (;;) {
        kapi_report report{{command, {}}, {}, nullptr};
        enter_sleep("a dump");
        int result = next(&place, &report);
        if (result <= 0)
            return all;
        if (result > 1)
            broken("a table of reports returned %d", result);
        if (!report.open.empty())
            broken("an attribute of a report has no end");
        all.push_back(std::move(report.contents));
    }
}

std::vector<Report> dump(kapi_net &net, std::uint8_t command, std::uint32_t choice)
{
    const auto &tables = net.node->reports.tables;
    auto found = tables.find(command);
    if (found == tables.end() || !kapi_module_get(found->second.owner))
        return {};
    const Reports::Table source = found->second;
    if (choice && !source.table->choice)
        broken("the command %u has no choice", command);
    auto next = [&](auto *place, auto *report) { return source.table->next(&net, place, report); };
    std::vector<Report> all = dump(command, next, choice);
    kapi_module_put(source.owner);
    return all;
}

} // namespace sim

extern "C" {

void kapi_report_number(kapi_report *report, kapi_u16 attribute, kapi_u64 value) noexcept
{
    take(report, value >> 32 ? 8 : 4);
    add(report, {.type = attribute, .is_number = true, .number = value});
}

void kapi_report_text(kapi_report *report, kapi_u16 attribute, const char *text) noexcept
{
    take(report, std::strlen(text) + 1);
    add(report, {.type = attribute, .is_text = true, .bytes = text});
}

void kapi_report_bytes(kapi_report *report, kapi_u16 attribute, const void *bytes, kapi_size length) noexcept
{
    take(report, length);
    add(report, {.type = attribute, .bytes = std::string(static_cast<const char *>(bytes), length)});
}

void kapi_report_begin(kapi_report *report, kapi_u16 attribute) noexcept
{
    if (report->open.size() == kDepth)
        broken("attributes of a report are nested too deeply");
    take(report, 0);
    report->open.push_back({.type = attribute});
}

kapi_size kapi_report_room(const kapi_report *report) noexcept { return kRoom - report->bytes; }

void kapi_report_end(kapi_report *report) noexcept
{
    if (report->open.empty())
        broken("an attribute of a report ends that has not begun");
    Attribute done = std::move(report->open.back());
    report->open.pop_back();
    add(report, std::move(done));
}

void kapi_report_register(kapi_module *owner, const kapi_report_table *tables, unsigned count) noexcept
{
    for (unsigned i = 0; i < count; i++)
        if (!Node::current()->reports.tables.emplace(tables[i].command, Reports::Table{&tables[i], owner}).second)
            broken("two tables have the command %u", tables[i].command);
}

void kapi_report_unregister(const kapi_report_table *tables, unsigned count) noexcept
{
    for (unsigned i = 0; i < count; i++)
        Node::current()->reports.tables.erase(tables[i].command);
}

kapi_report *kapi_event_begin(kapi_net *net, kapi_u8 command) noexcept
{
    enter_any("kapi_event_begin");
    if (!World::current_task()->locks.empty())
        broken("an event is sent under a lock");
    if (!net->node->reports.listens || fault("kapi_event_begin"))
        return nullptr;
    return new kapi_report{{command, {}}, {}, net};
}

void kapi_event_send(kapi_report *report) noexcept
{
    enter_any("kapi_event_send");
    if (!report->open.empty())
        broken("an attribute of an event has no end");
    report->net->node->reports.events.push_back(std::move(report->contents));
    delete report;
}

} // extern "C"
