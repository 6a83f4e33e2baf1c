// SPDX-License-Identifier: GPL-2.0
// The ends of a path as text: `ip:10.0.1.1`, `ip:fd00::1`, `gid:fe80:0000:...`, and both with '@' between them.
#pragma once

#include "text.h"

#include <kapi/verbs.h>

namespace rtrs {

// Bytes that the longest name of a path has: two GIDs, each with `gid:`, and the '@'.
inline constexpr usize max_path_name = 2 * (4 + 39) + 1;

// As the kernel's own shows it: IPv6 in its short form (RFC 5952), a GID in full.
void write_address(Text& text, kapi_cm_space space, const kapi_addr& addr);
inline void write_path_name(Text& text, kapi_cm_space space, const kapi_addr& client, const kapi_addr& server)
{
    write_address(text, space, client);
    text.add("@");
    write_address(text, space, server);
}

struct PathEnds {
    kapi_cm_space space;
    kapi_addr local; // any address of the family of remote, if the text names none
    kapi_addr remote;
};
// `[source@]destination`, or with ',' instead of '@'. EINVAL: it is neither, or both are not of one family.
Result<PathEnds> parse_path(TextView text);

} // namespace rtrs
