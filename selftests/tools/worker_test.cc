// SPDX-License-Identifier: GPL-2.0
// A worker of kcm-server on a socket that has an error and messages at once. The socket is a connected UDP socket, which
// reports errors as KCM's do, and needs no module.
extern "C" {
#include "kcm-frame.h"
#include "kcm-socket.h"
#include "kcm-worker.h"
}

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

extern "C" {

extern const char program_name[];
const char program_name[] = "worker_test";

// What KCM returns to the worker: each message comes from connection 1, which is always up.
int kcm_set(int, int, int) { return 0; }
bool kcm_is_up(int, uint64_t) { return true; }

int kcm_receive(int kcm, void *bytes, size_t room, struct kcm_runs *runs)
{
    static uint32_t length;
    ssize_t got = recv(kcm, bytes, room, MSG_DONTWAIT);
    if (got < 0)
        return -errno;
    length = static_cast<uint32_t>(got);
    runs->run[0] = {1, static_cast<char *>(bytes), &length, 1};
    runs->count = 1;
    return 1;
}

ssize_t kcm_send(int kcm, const struct kcm_run *run)
{
    return send(kcm, run->bytes, run->lengths[0], MSG_DONTWAIT);
}

uint32_t kcm_run_advance(struct kcm_run *run, size_t)
{
    return std::exchange(run->count, 0U);
}
}

namespace {

// A UDP socket on the loopback address; port 0: any.
int udp(uint16_t port = 0)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
    return fd;
}

sockaddr_in address_of(int fd)
{
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size), 0);
    return address;
}

void connect_to(int fd, const sockaddr_in &peer)
{
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr *>(&peer), sizeof(peer)), 0);
}

void send_requests(int fd, int count)
{
    for (int i = 0; i < count; i++) {
        std::array<char, FRAME_MIN> request{};
        frame_request(request.data(), request.size(), static_cast<uint64_t>(i));
        ASSERT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    }
}

TEST(KcmWorker, ReadsOnAfterAnErrorThatTookTheOnlyEdge)
{
    int kcm = udp(), client = udp();
    sockaddr_in client_address = address_of(client);
    connect_to(kcm, client_address);
    connect_to(client, address_of(kcm));
    send_requests(client, 3);
    // An error behind the requests: what is sent to the closed port is refused.
    close(client);
    ASSERT_EQ(send(kcm, "", 0, 0), 0);
    pollfd error{kcm, 0, 0};
    ASSERT_EQ(poll(&error, 1, 10000), 1);
    ASSERT_TRUE(error.revents & POLLERR);
    client = udp(ntohs(client_address.sin_port));
    timeval patience{10, 0};
    ASSERT_EQ(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);

    int stop = eventfd(0, EFD_CLOEXEC);
    std::array<int, 2> cut{};
    ASSERT_EQ(pipe(cut.data()), 0);
    struct worker *worker = worker_start(0, kcm, stop, cut[1], 1024);
    std::array<char, 64> answer{};
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(recv(client, answer.data(), answer.size(), 0), static_cast<ssize_t>(FRAME_MIN)) << i;
    ASSERT_EQ(eventfd_write(stop, 1), 0);
    worker_counts counts = worker_join(worker);
    EXPECT_EQ(counts.requests, 3U);
    EXPECT_EQ(counts.answers, 3U);
    for (int fd : {client, stop, cut[0], cut[1]})
        close(fd);
}

} // namespace
