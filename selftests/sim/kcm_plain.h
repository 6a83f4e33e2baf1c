// SPDX-License-Identifier: GPL-2.0
// The other end of a connection of KCM, by a program without it, which does its own framing.
#pragma once

#include "kcm_course.h"

class KcmPlain {
public:
    explicit KcmPlain(KcmCourse &course) : course_(course) {}

    /** From a task of its machine: reads and writes until the connection or all is over, and closes it. */
    void serve(int fd);

private:
    void read(int fd, std::uint64_t place);
    void write(int fd, std::uint32_t sender);
    bool write_one(int fd, std::uint32_t sender);

    KcmCourse &course_;
};
