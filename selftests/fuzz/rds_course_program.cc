// SPDX-License-Identifier: GPL-2.0
// The steps of the program.
#include "selftests/fuzz/rds_course.h"

#include <cstdint>
#include <vector>

#include "net/rds/uapi.h"

void RdsCourse::open(RdsSocket &socket, kapi_u16 port)
{
    if (socket.open() != 0)
        return;
    socket.bind(at(own_, port));
    socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 20 * sim::kMillisecond;
}

/** The lengths are those of what was returned. */
void RdsCourse::check_run(std::size_t room, const RdsSocket::Run &run)
{
    std::uint64_t sum = 0;
    for (std::uint32_t length : run.lengths)
        sum += length;
    if (run.lengths.size() > 1 && sum > room)
        world_.fail("a run of %llu bytes is in a buffer of %zu", static_cast<unsigned long long>(sum), room);
    if (!run.lengths.empty() && sum != static_cast<std::uint64_t>(run.result))
        world_.fail("the lengths of a run are not of its %ld bytes", run.result);
}

void RdsCourse::call(RdsSocket &socket, const Step &step)
{
    unsigned flags = step[2] % 2 ? RDS_ABI_MSG_DONTWAIT : 0;
    std::size_t size = step[3] % 4 ? step[4] : 4096u * step[4];
    kapi_addr to = at(step[5] % 8 ? peers_ : own_, step[5] % 16 == 1 ? 0 : static_cast<kapi_u16>(kPeersPort + step[5] % 3));
    SocketName name(to);
    switch (step[0] / 4 % 8) {
    case 0:
    case 1:
        if (step[6] % 8 == 0)
            socket.trouble.fault_at = size / 2;
        if (step[7] % 2) {
            std::vector<std::uint32_t> lengths(1 + step[7] / 2, static_cast<std::uint32_t>(size / (1 + step[7] / 2)));
            lengths[0] += static_cast<std::uint32_t>(size % lengths.size());
            socket.send_each(memory_.data(), size, to, lengths, flags);
            return;
        }
        socket.send(memory_.data(), size, to, flags);
        return;
    case 2: {
        socket.sk().zerocopy = true;
        socket.send_pinned(memory_.data(), size, to, step[6], flags);
        return;
    }
    case 3: {
        if (step[6] % 8 == 0)
            socket.trouble.fault_at = step[7] * 16u;
        check_run(size, socket.receive_run(memory_.data(), size, step[6] % 2 ? flags : step[7], step[5] * 2u));
        return;
    }
    case 4:
        socket.close();
        return open(socket, static_cast<kapi_u16>(1000 + step[1] % kSockets));
    case 5:
        socket.set_option(RDS_ABI_CANCEL_SENT_TO, name.bytes, name.size);
        return;
    case 6: {
        int value = step[2] % 2, length = 1 << (step[4] % 16), lengths = step[3] % 2;
        socket.set_option(RDS_ABI_RECV_LENGTHS, &lengths, sizeof(lengths));
        socket.set_option(RDS_ABI_CONG_MONITOR, &value, sizeof(value));
        socket.poll();
        (void)socket.get_option(RDS_ABI_INFO_FIRST + step[3] % 18, memory_.data(), &length);
        return;
    }
    default:
        socket.sk().rcvbuf = 256u << (step[2] % 14);
        socket.sk().sndbuf = 256u << (step[3] % 14);
    }
}

void RdsCourse::step_of_program(const Step &step)
{
    RdsSocket &socket = *sockets_[step[1] % kSockets];
    if (!socket.is_open())
        open(socket, static_cast<kapi_u16>(1000 + step[1] % kSockets));
    if (socket.is_open())
        call(socket, step);
}
