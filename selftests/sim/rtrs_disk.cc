// SPDX-License-Identifier: GPL-2.0
#include "rtrs_disk.h"

#include <kapi/errno.h>

#include <algorithm>
#include <cstring>

#include "kapi/sim/interrupt.h"

using namespace sim;

namespace {

constexpr unsigned kSlower = 40;

std::string bytes_at(const unsigned char *data, std::size_t size)
{
    return {reinterpret_cast<const char *>(data), size};
}

} // namespace

const rtrs_srv_core_ops RtrsDisk::ops{on_request, on_link};

void RtrsDisk::crashed()
{
    bios_.clear();
    sessions_ = 0;
}

int RtrsDisk::on_link(void *user, rtrs_srv_sess *session, rtrs_srv_core_event event, void *priv)
{
    auto &disk = *static_cast<RtrsDisk *>(user);
    disk.course_.world.sleep(disk.delay()); // it opens disks, or closes them
    if (event == RTRS_SRV_CORE_CONNECTED) {
        rtrs_srv_core_set_priv(session, user);
        disk.sessions_++;
    } else {
        if (priv != user)
            disk.course_.fail("a session ends that has never begun");
        disk.sessions_--;
    }
    return 0;
}

int RtrsDisk::on_request(void *user, void *priv, rtrs_srv_op *op, void *data, kapi_size size, const void *message,
                         kapi_size message_size)
{
    auto &disk = *static_cast<RtrsDisk *>(user);
    if (priv != user || !disk.sessions_)
        disk.course_.fail("a request of a session that is not connected");
    std::string text(static_cast<const char *>(message), message_size);
    if (text.size() < 2 || (text[0] != 'r' && text[0] != 'w'))
        disk.course_.fail("the server's disk gets a damaged message");
    if (!disk.bios_.insert(data).second)
        disk.course_.fail("a chunk is given to the disk that has it already");
    Bio bio{op, static_cast<unsigned char *>(data), size, text[0] == 'r', std::stoull(text.substr(1))};
    if (disk.course_.world.random().one_in(8))
        disk.run(bio); // at once
    else
        disk.course_.world.spawn(disk.node_, "bio", [&disk, bio] { disk.run(bio); });
    return 0;
}

std::uint64_t RtrsDisk::delay()
{
    Random &random = course_.world.random();
    const RtrsProfile &profile = course_.profile;
    return random.below(profile.bio_ns) * (random.one_in(profile.slow_one_in) ? kSlower : 1);
}

void RtrsDisk::run(const Bio &bio)
{
    bio.read ? read(bio) : write(bio);
    bios_.erase(bio.data);
    HardInterrupt interrupt; // as most disks answer
    rtrs_srv_core_resp(bio.op, 0);
}

/** In two halves, as a disk may. */
void RtrsDisk::read(const Bio &bio)
{
    std::string stored = blocks_[bio.block];
    stored.resize(bio.size);
    std::size_t half = bio.size / 2;
    course_.world.sleep(delay());
    std::memcpy(bio.data, stored.data(), half);
    course_.world.sleep(delay());
    std::memcpy(bio.data + half, stored.data() + half, bio.size - half);
    course_.world.sleep(delay() / 4);
    if (bytes_at(bio.data, bio.size) != stored)
        course_.fail("a chunk changes that the disk fills");
}

void RtrsDisk::write(const Bio &bio)
{
    std::string given = bytes_at(bio.data, bio.size);
    course_.world.sleep(delay());
    std::string bytes = bytes_at(bio.data, bio.size / 2);
    course_.world.sleep(delay());
    bytes += bytes_at(bio.data + bio.size / 2, bio.size - bio.size / 2);
    if (bytes != given)
        course_.fail("a chunk changes that the disk has");
    blocks_[bio.block] = bytes;
}
