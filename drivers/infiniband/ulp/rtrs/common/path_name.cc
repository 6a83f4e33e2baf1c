// SPDX-License-Identifier: GPL-2.0
#include "path_name.h"

namespace rtrs {

namespace {

constexpr usize groups = 8; // of 16 bits
constexpr u8 v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_v4(const kapi_addr& addr) { return !kapi_compare(addr.ip, v4_prefix, sizeof(v4_prefix)); }
u32 group(const kapi_addr& addr, usize i) { return static_cast<u32>(addr.ip[2 * i]) << 8 | addr.ip[2 * i + 1]; }

void write_v4(Text& text, const u8* ip)
{
    for (unsigned i = 0; i < 4; i++)
        text.add(i ? "." : "").number(ip[i]);
}

// The longest run of at least two zero groups, the first of equals, is left out.
void write_v6(Text& text, const kapi_addr& addr)
{
    usize first = groups, longest = 1;
    for (usize i = 0; i < groups; i++) {
        usize end = i;
        while (end < groups && !group(addr, end))
            end++;
        if (end - i > longest)
            first = i, longest = end - i;
    }
    for (usize i = 0; i < groups; i++) {
        if (i == first) {
            text.add("::");
            i += longest - 1;
            continue;
        }
        text.add(i && i != first + longest ? ":" : "").hex(group(addr, i), 1);
    }
}

bool parse_v4(TextView text, u8* ip)
{
    for (unsigned i = 0; i < 4; i++) {
        usize end = min(text.find('.'), text.size());
        auto number = parse_number(text.substr(0, end), 0, 255);
        if (!number || text[0] < '0' || (end == text.size()) != (i == 3)) // no sign
            return false;
        ip[i] = static_cast<u8>(*number);
        text.remove_prefix(min(end + 1, text.size()));
    }
    return true;
}

bool parse_group(TextView text, u8* to)
{
    u32 value = 0;
    if (text.empty() || text.size() > 4)
        return false;
    for (char c : text) {
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        value = value << 4 | static_cast<u32>(digit);
    }
    to[0] = static_cast<u8>(value >> 8);
    to[1] = static_cast<u8>(value);
    return true;
}

// Groups with ':' between them, the last two maybe as IPv4. Returns how many there are, or -1.
int parse_groups(TextView text, u8 (&to)[16])
{
    unsigned n = 0;
    while (!text.empty()) {
        usize end = min(text.find(':'), text.size());
        bool last = end == text.size();
        if (n >= groups || (!last && end + 1 == text.size()))
            return -1;
        if (last && text.find('.') != TextView::npos) {
            if (n > groups - 2 || !parse_v4(text, to + 2 * n))
                return -1;
            return static_cast<int>(n + 2);
        }
        if (!parse_group(text.substr(0, end), to + 2 * n))
            return -1;
        n++;
        text.remove_prefix(last ? end : end + 1);
    }
    return static_cast<int>(n);
}

bool parse_v6(TextView text, u8* ip)
{
    u8 front[16] = {}, back[16] = {};
    usize gap = text.find("::");
    if (gap == TextView::npos) {
        if (parse_groups(text, front) != static_cast<int>(groups))
            return false;
        kapi_copy(ip, front, sizeof(front));
        return true;
    }
    int before = parse_groups(text.substr(0, gap), front), after = parse_groups(text.substr(gap + 2), back);
    if (before < 0 || after < 0 || before + after > static_cast<int>(groups) - 1)
        return false;
    kapi_fill(ip, 0, 16);
    kapi_copy(ip, front, static_cast<usize>(before) * 2);
    kapi_copy(ip + 16 - after * 2, back, static_cast<usize>(after) * 2);
    return true;
}

struct End {
    kapi_cm_space space;
    kapi_addr addr;
};

Result<End> parse_end(TextView text)
{
    End end{};
    if (text.starts_with("gid:")) {
        end.space = KAPI_CM_GID;
        return parse_v6(text.substr(4), end.addr.ip) ? Result<End>(end) : fail(KAPI_EINVAL);
    }
    if (!text.starts_with("ip:"))
        return fail(KAPI_EINVAL);
    text.remove_prefix(3);
    end.space = KAPI_CM_IP;
    kapi_copy(end.addr.ip, v4_prefix, sizeof(v4_prefix));
    if (parse_v4(text, end.addr.ip + 12) || parse_v6(text, end.addr.ip))
        return end;
    return fail(KAPI_EINVAL);
}

} // namespace

void write_address(Text& text, kapi_cm_space space, const kapi_addr& addr)
{
    if (space == KAPI_CM_GID) {
        text.add("gid:");
        for (usize i = 0; i < groups; i++)
            text.add(i ? ":" : "").hex(group(addr, i), 4);
        return;
    }
    text.add("ip:");
    if (is_v4(addr))
        write_v4(text, addr.ip + 12);
    else
        write_v6(text, addr);
}

Result<PathEnds> parse_path(TextView text)
{
    usize middle = text.find_first_of("@,");
    bool has_source = middle != TextView::npos;
    End remote = TRY(parse_end(has_source ? text.substr(middle + 1) : text));
    PathEnds ends{remote.space, {}, remote.addr};
    if (!has_source) {
        if (remote.space == KAPI_CM_IP && is_v4(remote.addr))
            kapi_copy(ends.local.ip, v4_prefix, sizeof(v4_prefix));
        return ends;
    }
    End local = TRY(parse_end(text.substr(0, middle)));
    if (local.space != remote.space || (local.space == KAPI_CM_IP && is_v4(local.addr) != is_v4(remote.addr)))
        return fail(KAPI_EINVAL);
    ends.local = local.addr;
    return ends;
}

} // namespace rtrs
