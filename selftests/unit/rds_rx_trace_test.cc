// SPDX-License-Identifier: GPL-2.0
// RDS_MSG_RXPATH_LATENCY: how long a message was in each part of its way, in a control message.
#include "rds_test.h"

#include <kapi/errno.h>

#include <cstring>
#include <vector>

namespace {

/** A socket of machine a, bound to 127.0.0.1 port 5. All in a task of a. */
class RxTrace : public RdsTest {
protected:
    void with_socket(const std::function<void(RdsSocket &)> &body)
    {
        run(a, [&] {
            RdsSocket socket(host_a);
            ASSERT_EQ(socket.open(), 0);
            ASSERT_EQ(socket.bind(sim::address("127.0.0.1", 5)), 0);
            socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = 10 * sim::kMillisecond;
            body(socket);
        });
    }
};

TEST_F(RxTrace, timestamps_and_traces__come_with_the_message)
{
    with_socket([this](RdsSocket &socket) {
        int on = 1;
        rds_abi_rx_trace_so traces{2, {RDS_ABI_RX_DGRAM_REASSEMBLE, RDS_ABI_RX_DGRAM_DELIVERED, 0}};
        world.sleep(sim::kSecond);
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_TIMESTAMP_OLD, &on, 3), -KAPI_EFAULT);
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_TIMESTAMP_OLD, &on, 4), 0);
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, 1), -KAPI_EFAULT);
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0);
        EXPECT_EQ(send(socket, "hello", "127.0.0.1", 5), 5);
        world.sleep(5 * sim::kMillisecond);
        auto told = receive_control(socket).control;
        ASSERT_EQ(told.size(), 2u);
        EXPECT_EQ(told[0].level, RDS_ABI_SOL_SOCKET);
        EXPECT_EQ(told[1].type, RDS_ABI_CMSG_RXPATH_LATENCY);
        rds_abi_cmsg_rx_trace trace;
        ASSERT_EQ(told[1].data.size(), sizeof(trace));
        std::memcpy(&trace, told[1].data.data(), sizeof(trace));
        EXPECT_EQ(trace.rx_traces, 2);
        EXPECT_EQ(trace.rx_trace_pos[1], RDS_ABI_RX_DGRAM_DELIVERED);
        EXPECT_LT(trace.rx_trace[0], sim::kMillisecond);
        EXPECT_GE(trace.rx_trace[1], 4 * sim::kMillisecond); // in the queue
        EXPECT_LT(trace.rx_trace[1], 10 * sim::kMillisecond);

        traces.rx_traces = 4;
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), -KAPI_EFAULT);
        traces = {1, {RDS_ABI_RX_TRACE_MAX, 0, 0}};
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), -KAPI_EFAULT);
    });
}

TEST_F(RxTrace, traces__are_those_that_were_asked_for_last)
{
    with_socket([this](RdsSocket &socket) {
        constexpr kapi_u8 kLast = RDS_ABI_RX_DGRAM_DELIVERED;
        for (kapi_u8 count : {3, 1}) {
            rds_abi_rx_trace_so traces{count, {kLast, kLast, kLast}};
            EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0);
            EXPECT_EQ(send(socket, "hello", "127.0.0.1", 5), 5);
            world.sleep(5 * sim::kMillisecond);
            auto told = receive_control(socket).control;
            ASSERT_EQ(told.size(), 1u);
            rds_abi_cmsg_rx_trace trace;
            std::memcpy(&trace, told[0].data.data(), sizeof(trace));
            EXPECT_EQ(trace.rx_traces, count);
            for (kapi_u8 i = 0; i < RDS_ABI_RX_TRACE_MAX; i++) {
                EXPECT_EQ(trace.rx_trace_pos[i], i < count ? kLast : 0);
                EXPECT_EQ(trace.rx_trace[i] != 0, i < count) << "of others nothing is said";
            }
        }
    });
}

TEST_F(RxTrace, traces__have_no_stamps_of_a_time_when_no_socket_wanted_them)
{
    with_socket([this](RdsSocket &socket) {
        rds_abi_rx_trace_so traces{1, {RDS_ABI_RX_DGRAM_DELIVERED, 0, 0}};
        auto stamp_of_message_before = [&] {
            EXPECT_EQ(send(socket, "hello", "127.0.0.1", 5), 5);
            traces.rx_traces = 1;
            EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0);
            world.sleep(5 * sim::kMillisecond);
            rds_abi_cmsg_rx_trace trace{};
            auto control = receive_control(socket).control;
            EXPECT_EQ(control.size(), 1u);
            if (!control.empty())
                std::memcpy(&trace, control[0].data.data(), sizeof(trace));
            return trace.rx_trace[0];
        };
        auto stop = [](RdsSocket &traced) {
            rds_abi_rx_trace_so none{};
            EXPECT_EQ(traced.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &none, sizeof(none)), 0);
        };
        EXPECT_EQ(stamp_of_message_before(), 0u);
        EXPECT_NE(stamp_of_message_before(), 0u) << "the socket wants it already, and twice";
        stop(socket);
        stop(socket);
        EXPECT_EQ(stamp_of_message_before(), 0u);
        stop(socket);
        {
            RdsSocket ended(host_a);
            EXPECT_EQ(ended.open(), 0);
            EXPECT_EQ(ended.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0);
            EXPECT_NE(stamp_of_message_before(), 0u) << "another socket wants it";
            stop(socket);
        }
        EXPECT_EQ(stamp_of_message_before(), 0u);
    });
}

TEST_F(RxTrace, traces__that_cannot_be_copied__fail_the_call_and_keep_the_message)
{
    with_socket([](RdsSocket &socket) {
        rds_abi_rx_trace_so traces{1, {RDS_ABI_RX_DGRAM_DELIVERED, 0, 0}};
        EXPECT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0);
        EXPECT_EQ(send(socket, "hello", "127.0.0.1", 5), 5);
        char text[8];
        std::vector<std::uint32_t> cookies; // makes room for control data
        socket.trouble.control_faults = true;
        EXPECT_EQ(socket.receive(text, sizeof(text), nullptr, RDS_ABI_MSG_DONTWAIT, nullptr, &cookies), -KAPI_EFAULT);
        EXPECT_EQ(receive(socket), "hello");
    });
}

TEST_F(RxTrace, rx_trace__is_never_negative)
{
    a.local_clock_spread_ns = sim::kMillisecond; // one processor delivers, another one receives
    run(a, [&] {
        RdsSocket socket(host_a);
        ASSERT_EQ(socket.open(), 0);
        ASSERT_EQ(socket.bind(sim::address("10.0.0.1", 7)), 0);
        rds_abi_rx_trace_so traces{1, {RDS_ABI_RX_DGRAM_DELIVERED, 0, 0}};
        ASSERT_EQ(socket.set_option(RDS_ABI_SO_MSG_RXPATH_LATENCY, &traces, sizeof(traces)), 0);
        for (int i = 0; i < 20; i++) {
            EXPECT_EQ(send(socket, "x", "10.0.0.1", 7), 1);
            char byte;
            std::vector<std::uint32_t> cookies; // makes room for control messages
            EXPECT_EQ(socket.receive(&byte, 1, nullptr, 0, nullptr, &cookies), 1);
            ASSERT_EQ(socket.control().size(), 1u);
            rds_abi_cmsg_rx_trace trace;
            std::memcpy(&trace, socket.control()[0].data.data(), sizeof(trace));
            EXPECT_LT(trace.rx_trace[0], sim::kSecond);
        }
    });
}

} // namespace
