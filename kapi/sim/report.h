// SPDX-License-Identifier: GPL-2.0
// What programs of a simulated machine read over netlink (include/kapi/report.h).
#pragma once

#include <kapi/report.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sim {

class Node;

/** One attribute: a number, bytes or text, or others. */
struct Attribute {
    std::uint16_t type = 0;
    bool is_number = false, is_text = false;
    std::uint64_t number = 0;
    std::string bytes{}; // or the text
    std::vector<Attribute> nested{};
};

/** What a message says of an object, or of an event. */
struct Report {
    std::uint8_t command = 0;
    std::vector<Attribute> attributes;
    /** Those of a type. */
    static std::vector<const Attribute *> all(const std::vector<Attribute> &of, std::uint16_t type);
    /** The only one of a type, as text: its number, an address (4 or 16 bytes), or itself. "" if there is none. */
    static std::string text(const std::vector<Attribute> &of, std::uint16_t type);
};

/** Of a node. */
struct Reports {
    struct Table {
        const kapi_report_table *table;
        kapi_module *owner;
    };
    std::map<std::uint8_t, Table> tables;
    bool listens = false; // a program does, to the events
    std::vector<Report> events;
};

/** What a program in a namespace reads with a command: nothing if there is no such table. In a task. */
std::vector<Report> dump(kapi_net &net, std::uint8_t command, std::uint32_t choice = 0);
/** All that next() adds, which is as of a kapi_report_table. */
using Next = std::function<int(kapi_report_place *, kapi_report *)>;
std::vector<Report> dump(std::uint8_t command, const Next &next, std::uint32_t choice = 0);

} // namespace sim
