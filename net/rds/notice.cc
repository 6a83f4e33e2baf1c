// SPDX-License-Identifier: GPL-2.0
#include "notice.h"

#include "connection.h"

namespace rds {

namespace {

const char* name_of(PathState state)
{
    switch (state) {
    case PathState::down:
        return "down";
    case PathState::connecting:
        return "connecting";
    case PathState::up:
        return "up";
    case PathState::closing:
        return "closing";
    }
    return "";
}

constexpr const char* reasons[] = {
    "wanted", "established", "accepted", "refused", "heard", "lost", "replaced", "dead", "unanswered", "unused", "renewed",
    "removed", "closed",
};
static_assert(sizeof(reasons) / sizeof(reasons[0]) == KAPI_RDS_CLOSED + 1);

// A peer's address, as text.
class Name {
public:
    explicit Name(const Ip& ip)
    {
        const u8* b = ip.is_v4() ? ip.v4() : ip.bytes();
        for (unsigned i = 0; i < (ip.is_v4() ? 4u : 8u); i++) {
            if (i)
                add(ip.is_v4() ? '.' : ':');
            if (ip.is_v4())
                add_number<10>(b[i]);
            else
                add_number<16>(static_cast<unsigned>(b[2 * i] << 8 | b[2 * i + 1]));
        }
        add('\0');
    }
    const char* text() const { return text_; }

private:
    void add(char c) { text_[used_++] = c; }
    template <unsigned base> void add_number(unsigned number)
    {
        if (number >= base)
            add_number<base>(number / base);
        add("0123456789abcdef"[number % base]);
    }

    char text_[8 * 5]; // the longest, with its end
    unsigned used_ = 0;
};

} // namespace

void note(kapi_log_level level, const Ip& peer, const char* what)
{
    kapi_log(level, "rds: %s %s", Name(peer).text(), what);
}

void note_loss(const Connection& connection, kapi_trace_rds_reason reason)
{
    kapi_log(KAPI_LOG_INFO, "rds: %s is not connected any more (%s)", Name(connection.remote.ip).text(), reasons[reason]);
}

void note_change(const Path& path, PathState from, PathState to, kapi_trace_rds_reason reason)
{
    kapi_log(KAPI_LOG_DEBUG, "rds: %s path %u: %s -> %s (%s)", Name(path.connection().remote.ip).text(), path.index(),
             name_of(from), name_of(to), reasons[reason]);
}

} // namespace rds
