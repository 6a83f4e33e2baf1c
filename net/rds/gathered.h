// SPDX-License-Identifier: GPL-2.0
// Messages that were queued on a path and not transmitted yet, because others follow at once.
#pragma once

#include "connection.h"

namespace rds {

// They are transmitted when this ends at the latest, and by a timer of the path: what is to follow may take for ever. One thread
// at a time.
class Gathered {
public:
    Gathered() = default;
    Gathered(Gathered&& other) noexcept { swap(other); }
    Gathered& operator=(Gathered&&) = delete;
    ~Gathered() { transmit(); }

    explicit operator bool() const { return path_ != nullptr; }
    void swap(Gathered& other) noexcept
    {
        std::swap(connection_, other.connection_);
        std::swap(path_, other.path_);
    }
    // A message was queued on path. Sleeps, when those before it were on another one.
    void add(Path& path)
    {
        if (path_ != &path) {
            transmit();
            connection_ = Ref<Connection>::share(path.connection());
            path_ = &path;
        }
        path.transmit_later(); // for each: that of those before it may be over
    }
    // Sleeps.
    void transmit()
    {
        Ref<Connection> connection = std::move(connection_); // which may be the last reference to it
        if (Path* path = std::exchange(path_, nullptr)) [[unlikely]]
            path->transmit();
    }
    // path, whose connection the caller holds, is transmitted now.
    void remove(const Path& path)
    {
        if (path_ == &path) {
            path_ = nullptr;
            connection_ = {};
        }
    }

private:
    Ref<Connection> connection_; // of path_
    Path* path_ = nullptr;
};

} // namespace rds
