// SPDX-License-Identifier: GPL-2.0
// The value of a socket option, read from the program. Task. EINVAL: too short, or not of the exact length; EFAULT.
#pragma once

#include <hawser/result.h>
#include <kapi/socket.h>

namespace rds {

using namespace hw;

template <class T> Result<T> read(const kapi_optval* value, int length)
{
    T data;
    if (length < static_cast<int>(sizeof(data)))
        return fail(KAPI_EINVAL);
    TRY(check(kapi_optval_copy_in(value, &data, sizeof(data))));
    return data;
}

// An option whose length must be exact.
template <class T> Result<T> read_exact(const kapi_optval* value, int length)
{
    if (length != static_cast<int>(sizeof(T)))
        return fail(KAPI_EINVAL);
    return read<T>(value, length);
}

} // namespace rds
