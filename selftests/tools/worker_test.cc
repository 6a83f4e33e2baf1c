// SPDX-License-Identifier: GPL-2.0
// A worker of kcm-server on a socket that has an error and messages at once, or that has no memory for answers. The socket is a
// connected UDP socket, which reports errors as KCM's do, and needs no module.
extern "C" {
#include "kcm-backlog.h"
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
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

namespace {

// Of kcm_send(): how many attempts there were, and how many fail, with what errno.
std::atomic<unsigned> attempts, failures;
int failure;
// Of KCM_STATS: the connection that there is and its error, or why there is no answer.
kcm_connection_stats known{};
int unknown;

} // namespace

extern "C" {

extern const char program_name[];
const char program_name[] = "worker_test";

// What KCM returns to the worker: each message comes from connection 1. What kcm-socket.c has besides is used as it is.
int kcm_set(int, int, int) { return 0; }

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
    if (attempts++ < failures) {
        errno = failure;
        return -1;
    }
    return send(kcm, run->bytes, run->lengths[0], MSG_DONTWAIT);
}

uint32_t kcm_run_advance(struct kcm_run *run, size_t)
{
    return std::exchange(run->count, 0U);
}

int kcm_connections(int, struct kcm_connection_stats *stats, size_t)
{
    stats[0] = known;
    return unknown ? -unknown : 1;
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
    struct worker *worker = worker_start(0, kcm, stop, cut[1], 1024, BACKLOG_OF_ALL);
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

/** A worker, and its client with so many requests. */
struct Exchange {
    explicit Exchange(int requests)
    {
        attempts = failures = 0;
        connect_to(kcm, address_of(client));
        connect_to(client, address_of(kcm));
        timeval patience{10, 0};
        EXPECT_EQ(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
        EXPECT_EQ(pipe(cut.data()), 0);
        send_requests(client, requests);
    }
    ~Exchange()
    {
        for (int fd : {client, stop, cut[0], cut[1]})
            close(fd);
    }
    void start(size_t backlog = BACKLOG_OF_ALL) { worker = worker_start(0, kcm, stop, cut[1], 1024, backlog); }
    worker_counts end()
    {
        EXPECT_EQ(eventfd_write(stop, 1), 0);
        return worker_join(worker);
    }
    // The next connection that is to be cut off.
    uint64_t next_cut()
    {
        uint64_t id = 0;
        pollfd readable{cut[0], POLLIN, 0};

        return poll(&readable, 1, 10000) == 1 && read(cut[0], &id, sizeof(id)) == static_cast<ssize_t>(sizeof(id)) ? id : 0;
    }
    bool is_answered()
    {
        std::array<char, 64> answer{};
        return recv(client, answer.data(), answer.size(), 0) == static_cast<ssize_t>(FRAME_MIN);
    }

    int kcm = udp(), client = udp(), stop = eventfd(0, EFD_CLOEXEC);
    std::array<int, 2> cut{};
    struct worker *worker = nullptr;
};

// No event says that there is memory, and one that does not pause would take a processor for as long as there is none.
TEST(KcmWorker, TriesAgainAfterAPauseWithoutMemory)
{
    constexpr unsigned kFailures = 10;
    for (int without : {ENOMEM, ENOBUFS, EPIPE}) {
        known = {};
        known.id = 1;
        unknown = without == EPIPE ? ENOMEM : 0; // the state of the connection says what that is of
        Exchange exchange(1);
        failure = without;
        failures = kFailures;
        auto begun = std::chrono::steady_clock::now();
        exchange.start();
        EXPECT_TRUE(exchange.is_answered()) << without;
        EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(5 * kFailures)) << without;
        worker_counts counts = exchange.end();
        EXPECT_EQ(counts.answers, 1U);
        EXPECT_EQ(counts.undeliverable, 0U);
        EXPECT_EQ(attempts, kFailures + 1);
    }
    unknown = 0;
}

// What a call reports may be of an earlier message. Whether this one can be sent says the state of its connection.
TEST(KcmWorker, DropsAnAnswerOnlyIfItsConnectionHasEnded)
{
    struct Case {
        uint64_t id;
        int error, unknown;
        bool drops;
    };
    for (Case with : {Case{1, 0, 0, false}, {1, EPIPE, 0, true}, {2, 0, 0, true}, {2, 0, ENOMEM, false}}) {
        known = {};
        known.id = with.id;
        known.error = with.error;
        unknown = with.unknown;
        Exchange exchange(2);
        failure = EPIPE;
        failures = 1;
        exchange.start();
        for (int i = 0; i < (with.drops ? 1 : 2); i++)
            EXPECT_TRUE(exchange.is_answered()) << i;
        worker_counts counts = exchange.end();
        EXPECT_EQ(counts.answers, with.drops ? 1U : 2U);
        EXPECT_EQ(counts.undeliverable, with.drops ? 1U : 0U);
    }
    unknown = 0;
}

// Later answers would follow those that are missing, even if there is room for them.
TEST(KcmWorker, AnswersNothingToAClientThatIsCutOff)
{
    known = {};
    known.id = 1;
    Exchange exchange(2);
    failure = EAGAIN;
    failures = 1;
    exchange.start(1);
    EXPECT_EQ(exchange.next_cut(), 1U);
    EXPECT_EQ(exchange.next_cut(), 1U);
    // Each event tries again, until the connection has ended.
    send_requests(exchange.client, 1);
    EXPECT_EQ(exchange.next_cut(), 1U);
    EXPECT_EQ(exchange.next_cut(), 1U);
    worker_counts counts = exchange.end();
    EXPECT_EQ(counts.answers, 0U);
    EXPECT_EQ(counts.undeliverable, 3U);
    EXPECT_EQ(attempts, 1U);
}

} // namespace
