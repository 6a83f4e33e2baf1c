// SPDX-License-Identifier: GPL-2.0
// What rds-info shows of the programs that have sockets open, here of this one.
extern "C" {
#include "info-tables.h"
}

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
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

} // namespace
