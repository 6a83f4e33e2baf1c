// SPDX-License-Identifier: GPL-2.0
// What rds-info shows of the programs that have sockets open, here of this one.
extern "C" {
#include "info-tables.h"
#include "owners.h"
}

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <string>

namespace {

int open_socket()
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

uint64_t inode_of(int fd)
{
    struct stat status = {};

    EXPECT_EQ(fstat(fd, &status), 0);
    return status.st_ino;
}

const info_source &sockets_table()
{
    const info_source *source = info_sources;

    while (source->letter != 'k')
        source++;
    return *source;
}

// The row of a socket in the table.
std::string shown(uint64_t inode)
{
    row row{};

    rds_address_parse("10.0.0.1", &row.socket.bound);
    row.socket.connected = row.socket.bound;
    row.socket.inode = inode;
    owners_forget();
    info_view.verbose = true;
    testing::internal::CaptureStdout();
    sockets_table().print(&row);
    info_view.verbose = false;
    return testing::internal::GetCapturedStdout();
}

TEST(Owners, AreShownWithoutWhatATerminalObeys)
{
    std::array<char, 16> before{};
    int fd = open_socket();

    ASSERT_EQ(prctl(PR_GET_NAME, before.data()), 0);
    ASSERT_EQ(prctl(PR_SET_NAME, "\x1b[2J\r\x9b\x7f~ x"), 0);
    const std::string row = shown(inode_of(fd));
    ASSERT_EQ(prctl(PR_SET_NAME, before.data()), 0);
    close(fd);
    const std::string expected = "  " + std::to_string(getpid()) + " ?[2J???~ x\n";
    ASSERT_GE(row.size(), expected.size());
    EXPECT_EQ(row.substr(row.size() - expected.size()), expected);
}

TEST(Owners, AreFoundAmongManySockets)
{
    std::array<int, 100> sockets{};
    std::array<uint64_t, 100> inodes{};

    for (size_t i = 0; i < sockets.size(); i++)
        inodes[i] = inode_of(sockets[i] = open_socket());
    owners_forget();
    for (size_t i = 0; i < sockets.size(); i++) {
        owner owner{};

        EXPECT_TRUE(owner_find(inodes[i], &owner)) << i;
        EXPECT_EQ(owner.pid, getpid()) << i;
        EXPECT_EQ(owner.inode, inodes[i]) << i;
        close(sockets[i]);
    }
    owners_forget();
    for (uint64_t inode : inodes) {
        owner owner{};

        EXPECT_FALSE(owner_find(inode, &owner));
    }
}

// As before the sort: a child that has the socket, too, is younger.
TEST(Owners, AreTheFirstOfSeveralProcesses)
{
    int fd = open_socket();
    const pid_t child = fork();

    if (!child) {
        pause();
        _exit(0);
    }
    owner owner{};
    owners_forget();
    EXPECT_TRUE(owner_find(inode_of(fd), &owner));
    EXPECT_EQ(owner.pid, std::min(getpid(), child));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(fd);
}

} // namespace
