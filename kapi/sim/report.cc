// SPDX-License-Identifier: GPL-2.0
#include "report.h"

#include <algorithm>
#include <cstdio>

#include <kapi/host.h>

#include "node.h"

using namespace sim;

struct kapi_report {
    Report contents;
    std::vector<Attribute> open; // attributes that have begun
    kapi_net *net;
};

namespace {

constexpr std::size_t kDepth = 2; // as the kernel's has it

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

std::vector<Report> dump(std::uint8_t command, const std::function<int(kapi_report_place *, kapi_report *)> &next)
{
    std::vector<Report> all;
    kapi_report_place place{};
    for (;;) {
        kapi_report report{{command, {}}, {}, nullptr};
        enter_sleep("a dump");
        if (next(&place, &report) == 0)
            return all;
        if (!report.open.empty())
            broken("an attribute of a report has no end");
        all.push_back(std::move(report.contents));
    }
}

std::vector<Report> dump(kapi_net &net, std::uint8_t command)
{
    const auto &tables = net.node->reports.tables;
    auto found = tables.find(command);
    if (found == tables.end() || !kapi_module_get(found->second.owner))
        return {};
    const Reports::Table source = found->second;
    std::vector<Report> all = dump(command, [&](auto *place, auto *report) { return source.table->next(&net, place, report); });
    kapi_module_put(source.owner);
    return all;
}

} // namespace sim

extern "C" {

void kapi_report_number(kapi_report *report, kapi_u16 attribute, kapi_u64 value) noexcept
{
    add(report, {.type = attribute, .is_number = true, .number = value});
}

void kapi_report_text(kapi_report *report, kapi_u16 attribute, const char *text) noexcept
{
    add(report, {.type = attribute, .is_text = true, .bytes = text});
}

void kapi_report_bytes(kapi_report *report, kapi_u16 attribute, const void *bytes, kapi_size length) noexcept
{
    add(report, {.type = attribute, .bytes = std::string(static_cast<const char *>(bytes), length)});
}

void kapi_report_begin(kapi_report *report, kapi_u16 attribute) noexcept
{
    if (report->open.size() == kDepth)
        broken("attributes of a report are nested too deeply");
    report->open.push_back({.type = attribute});
}

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
