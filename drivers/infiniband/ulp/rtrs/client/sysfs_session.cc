// SPDX-License-Identifier: GPL-2.0
#include "session.h"
#include "sysfs.h"

#include "../common/path_name.h"

namespace rtrs_clt {

namespace {

using rtrs::Text;

// ---- the policy: its number, its name or its two letters, in any case; text may follow the name, as upstream

struct PolicyName {
    TextView name, letters;
};
constexpr PolicyName policies[] = {{"round-robin", "rr"}, {"min-inflight", "mi"}, {"min-latency", "ml"}};

bool begins_with(TextView text, TextView lower)
{
    for (usize i = 0; i < lower.size(); i++)
        if (i == text.size() || (text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 32 : text[i]) != lower[i])
            return false;
    return true;
}

void show_policy(Session& session, Text& text)
{
    u32 policy = session.settings().policy.load_relaxed();
    constexpr TextView letters[] = {"RR", "MI", "ML"};
    text.add(policies[policy].name).add(" (").add(letters[policy]).add(": ").number(policy).add(")\n");
}

Result<> store_policy(Session& session, TextView line)
{
    for (u32 i = 0; i < std::size(policies); i++) {
        auto number = rtrs::parse_number(line, i, i);
        bool is_letters = line.size() == policies[i].letters.size() && begins_with(line, policies[i].letters);
        if (number || is_letters || begins_with(line, policies[i].name))
            return session.settings().policy.store_relaxed(i), Result<>();
    }
    return fail(KAPI_EINVAL);
}

// ---- numbers

void show_max_reconnects(Session& session, Text& text)
{
    text.number(session.settings().max_reconnects.load_relaxed()).add("\n");
}

Result<> store_max_reconnects(Session& session, TextView line)
{
    session.settings().max_reconnects.store_relaxed(static_cast<s32>(TRY(rtrs::parse_number(line, -1, 9999))));
    return {};
}

template <Atomic<u32> Settings::*Field> void show_number(Session& session, Text& text)
{
    text.number((session.settings().*Field).load_relaxed()).add("\n");
}

template <Atomic<u32> Settings::*Field, const Range& Allowed> Result<> store_number(Session& session, TextView line)
{
    (session.settings().*Field).store_relaxed(static_cast<u32>(TRY(rtrs::parse_number(line, Allowed.least, Allowed.most))));
    session.notify_paths();
    return {};
}

// ---- paths

void show_add_path(Session&, Text& text)
{
    text.add("Usage: echo [<source addr>@]<destination addr> > add_path\n\n*addr ::= [ ip:<ipv4|ipv6> | gid:<gid> ]\n");
}

Result<> store_add_path(Session& session, TextView line)
{
    rtrs::PathEnds ends = TRY(rtrs::parse_path(line.substr(0, min(line.find('\n'), line.size()))));
    if (!session.is_open())
        return fail(KAPI_EBUSY);
    PathAddress address{ends.space, ends.local, ends.remote};
    address.remote.port = session.port();
    return session.add_path(address);
}

template <Atomic<u32> Settings::*Field, const Range& Allowed> constexpr kapi_sysfs_file number_file()
{
    return {Allowed.name, show<Session, show_number<Field>>, store<Session, store_number<Field, Allowed>>};
}

constexpr kapi_sysfs_file files[] = {
    {"add_path", show<Session, show_add_path>, store<Session, store_add_path>},
    {"max_reconnect_attempts", show<Session, show_max_reconnects>, store<Session, store_max_reconnects>},
    {"mp_policy", show<Session, show_policy>, store<Session, store_policy>},
    {"mpath_policy", show<Session, show_policy>, store<Session, store_policy>},
    number_file<&Settings::heartbeat_ms, heartbeat_range>(),
    number_file<&Settings::heartbeats_missed, missed_range>(),
    number_file<&Settings::reconnect_delay_ms, reconnect_range>(),
    number_file<&Settings::no_path_ms, no_path_range>(),
    number_file<&Settings::io_ms, io_range>(),
};

} // namespace

std::span<const kapi_sysfs_file> session_files() { return files; }

} // namespace rtrs_clt
