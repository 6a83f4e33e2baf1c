// SPDX-License-Identifier: GPL-2.0
// Programs that send and receive many messages in a call over KCM.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "kcm_test.h"

constexpr unsigned kNow = KCM_ABI_MSG_DONTWAIT;
constexpr std::size_t kHead = sizeof(kcm_abi_cmsghdr), kMuch = 4096;

using Lengths = std::vector<std::uint32_t>;

class KcmLengthsTest : public KcmTest {
protected:
    Ends open_with_option(KcmSocket &socket, int type = KCM_ABI_SOCK_DGRAM)
    {
        Ends ends = open_with_one(socket, -1, type);
        run(a, [&] { EXPECT_EQ(socket.set_option(KCM_ABI_RECV_LENGTHS, 1), 0); });
        return ends;
    }
    KcmSocket::Received receive_each(KcmSocket &socket, std::size_t room = 1 << 20, std::size_t control_room = kMuch,
                                     unsigned flags = kNow)
    {
        KcmSocket::Received got;
        bytes_.assign(room, '\0');
        run(a, [&] { got = socket.receive_each(bytes_.data(), room, flags, control_room); });
        bytes_.resize(got.result > 0 ? static_cast<std::size_t>(got.result) : 0);
        return got;
    }
    long send_each(KcmSocket &socket, const std::vector<std::string> &messages, unsigned flags = 0, std::uint64_t connection = 0)
    {
        return send_as(socket, joined(messages), lengths_of(messages), flags, connection);
    }
    long send_as(KcmSocket &socket, const std::string &bytes, const Lengths &lengths, unsigned flags = 0,
                 std::uint64_t connection = 0)
    {
        long result = 0;
        run(a, [&] { result = socket.send_each(bytes.data(), bytes.size(), lengths, flags, connection); }, 300 * sim::kSecond);
        return result;
    }
    static std::string joined(const std::vector<std::string> &messages)
    {
        return std::accumulate(messages.begin(), messages.end(), std::string());
    }
    static Lengths lengths_of(const std::vector<std::string> &messages)
    {
        Lengths lengths;
        for (const std::string &message : messages)
            lengths.push_back(static_cast<std::uint32_t>(message.size()));
        return lengths;
    }
    static std::vector<std::string> some(unsigned count, std::size_t size = 10)
    {
        std::vector<std::string> messages;
        for (unsigned i = 0; i < count; i++)
            messages.push_back(framed(text(size + i % 3, i)));
        return messages;
    }
    static Lengths all_lengths(const KcmSocket::Received &got)
    {
        Lengths all;
        for (const auto &run : got.runs)
            all.insert(all.end(), run.lengths.begin(), run.lengths.end());
        return all;
    }
    kcm_totals totals()
    {
        kcm_totals all{};
        run(a, [&] { kcm_net_totals(host.net(a.initial_net()), &all); });
        return all;
    }

    std::string bytes_; // that were received last
};
