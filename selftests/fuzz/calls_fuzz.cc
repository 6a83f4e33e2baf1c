// SPDX-License-Identifier: GPL-2.0
// Any sequence of socket calls by a program, each byte of the input choosing the next: errors are fine, nothing else is.
#include <kapi/sim/sim.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/rds/uapi.h"
#include "selftests/sim/rds_host.h"

namespace {

class Input {
public:
    Input(const std::uint8_t *data, std::size_t size) : data_(data), left_(size) {}
    bool empty() const { return left_ == 0; }
    unsigned byte()
    {
        if (!left_)
            return 0;
        left_--;
        return *data_++;
    }

private:
    const std::uint8_t *data_;
    std::size_t left_;
};

kapi_addr any_address(Input &input)
{
    static const char *const kAddresses[] = {"127.0.0.1", "10.0.0.1", "10.0.0.2", "::1",     "2001:db8::1",
                                             "0.0.0.0",   "224.0.0.1", "fe80::1", "10.9.9.9"};
    return sim::address(kAddresses[input.byte() % std::size(kAddresses)], static_cast<kapi_u16>(input.byte() % 6));
}

void one_call(Input &input, RdsSocket &socket)
{
    static std::uint8_t memory[70'000];
    unsigned what = input.byte();
    std::size_t size = (input.byte() << 8 | input.byte()) % sizeof(memory);
    kapi_msg msg{};
    msg.memory = memory;
    msg.size = size;
    if (what & 0x80)
        msg.fault_at = size / 2;
    msg.control_room = input.byte();
    switch (what % 8) {
    case 0:
        socket.bind(any_address(input));
        return;
    case 1:
        socket.connect(any_address(input));
        return;
    case 2:
    case 3: {
        std::uint8_t control[64];
        std::size_t length = input.byte() % sizeof(control);
        std::generate_n(control, length, [&] { return static_cast<std::uint8_t>(input.byte()); });
        SocketName name(any_address(input));
        rds_send call{&msg, size, name.bytes, input.byte() % 3 ? name.size : 0, control, length, input.byte() % 0x80};
        call.flags |= input.byte() % 4 ? RDS_ABI_MSG_DONTWAIT : 0;
        (void)rds_socket_sendmsg(socket.core(), &call);
        return;
    }
    case 4: {
        rds_receive call{};
        call.msg = &msg;
        call.size = size;
        call.control_length = msg.control_room;
        call.flags = input.byte();
        (void)rds_socket_recvmsg(socket.core(), &call);
        return;
    }
    case 5:
        (void)socket.set_option(static_cast<int>(input.byte() % 12), memory, static_cast<int>(input.byte()));
        return;
    case 6: {
        int length = static_cast<int>(size);
        (void)socket.get_option(RDS_ABI_INFO_FIRST - 2 + static_cast<int>(input.byte() % 24), memory, &length);
        return;
    }
    default:
        (void)socket.poll();
        socket.sk().rcvbuf = socket.sk().sndbuf = 100u << (input.byte() % 16);
        socket.sk().zerocopy = input.byte() % 2;
        return;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    sim::World world(size);
    sim::Node &node = world.add_node("node");
    node.initial_net().add(sim::address("10.0.0.1"));
    node.initial_net().add(sim::address("2001:db8::1"));
    RdsHost host(node);
    Input input(data, std::min<std::size_t>(size, 4096));
    auto program = world.spawn(node, "program", [&] {
        if (host.load())
            world.fail("the modules do not load");
        std::vector<std::unique_ptr<RdsSocket>> sockets(3);
        for (auto &socket : sockets) {
            socket = std::make_unique<RdsSocket>(host);
            socket->open();
            socket->sk().rcvtimeo_ns = socket->sk().sndtimeo_ns = sim::kMillisecond;
        }
        for (int calls = 0; calls < 60 && !input.empty(); calls++)
            one_call(input, *sockets[input.byte() % sockets.size()]);
        sockets.clear();
        if (!host.unload_soon())
            world.fail("the modules do not unload");
    });
    if (!world.run_until([&] { return program->is_done(); }, 600 * sim::kSecond))
        world.fail("stuck");
    world.run_for(sim::kSecond); // the last packets arrive
    return 0;
}
