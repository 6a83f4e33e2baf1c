// SPDX-License-Identifier: GPL-2.0
#include "kcm_plain.h"

#include <algorithm>
#include <vector>

using namespace sim;

void KcmPlain::serve(int fd)
{
    std::uint32_t sender = course_.next_sender++;
    TaskRef writer = course_.world.spawn(*Node::current(), "writer", [this, fd, sender] { write(fd, sender); });
    read(fd, course_.next_place++ << 32);
    while (!writer->is_done())
        course_.world.sleep(kMillisecond);
    program_close(fd);
}

/** Reads to the end of the connection, which is between two messages unless it breaks. */
void KcmPlain::read(int fd, std::uint64_t place)
{
    std::vector<unsigned char> frame;
    std::size_t wanted = 4;
    for (;;) {
        std::size_t have = frame.size();
        frame.resize(wanted);
        long got = program_read(fd, frame.data() + have, wanted - have);
        if (got <= 0) {
            if (got == 0 && have && !course_.over)
                course_.fail("a connection ended within a message without an error");
            return;
        }
        frame.resize(have + static_cast<std::size_t>(got));
        if (frame.size() < wanted)
            continue;
        std::size_t size = 4;
        for (unsigned i = 0; i < 4; i++)
            size += std::size_t{frame[i]} << (24 - 8 * i);
        if (size > KcmProfile::kLargest)
            course_.fail("the peer is out of frame");
        if (frame.size() < size) {
            wanted = size;
            continue;
        }
        course_.ledger.received(place, true, frame.data(), frame.size());
        frame.clear();
        wanted = 4;
    }
}

/** In pieces. False when the connection is over. */
bool KcmPlain::write_one(int fd, std::uint32_t sender)
{
    Random &random = course_.world.random();
    auto bytes = course_.ledger.compose(sender, course_.size());
    for (std::size_t at = 0; at < bytes.size();) {
        std::size_t part = std::min<std::size_t>(1 + random.below(random.one_in(2) ? 20 : 20'000), bytes.size() - at);
        long written = program_write(fd, bytes.data() + at, part);
        if (written < 0)
            return false;
        at += static_cast<std::size_t>(written);
        if (random.one_in(8))
            course_.world.sleep(random.below(kMillisecond));
    }
    course_.ledger.sent(sender);
    return true;
}

void KcmPlain::write(int fd, std::uint32_t sender)
{
    for (unsigned sent = 0; !course_.over && !(program_poll(fd) & KAPI_HUP);) {
        if (sent >= course_.wanted())
            course_.world.sleep(10 * kMillisecond);
        else if (write_one(fd, sender))
            sent++;
        else
            return;
    }
}
