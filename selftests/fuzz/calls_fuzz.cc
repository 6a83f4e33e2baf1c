// SPDX-License-Identifier: GPL-2.0
// Any sequence of socket calls by a program, each byte of the input choosing the next. Only errors may result.
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

// A control message of a known kind, mostly of its size. Its pointers are valid: ranges of any memory.
void add_control(Input &input, std::vector<std::uint8_t> &controls)
{
    static std::uint8_t ranges[1024 * sizeof(rds_abi_iovec)];
    static const std::size_t sizes[] = {0, sizeof(rds_abi_rdma_args), sizeof(std::uint64_t), sizeof(rds_abi_get_mr_args)};
    unsigned type = input.byte() % 14;
    std::size_t other = type == RDS_ABI_CMSG_ZCOPY_COOKIE ? 4 : sizeof(rds_abi_atomic_args);
    std::size_t size = type < std::size(sizes) ? sizes[type] : other;
    std::uint8_t payload[2 * sizeof(rds_abi_atomic_args)] = {};
    std::generate_n(payload, 16, [&] { return static_cast<std::uint8_t>(input.byte()); });
    if (type == RDS_ABI_CMSG_RDMA_ARGS) {
        auto &args = *reinterpret_cast<rds_abi_rdma_args *>(payload);
        std::generate_n(ranges, 2 * sizeof(rds_abi_iovec), [&] { return static_cast<std::uint8_t>(input.byte()); });
        args.remote_vec.bytes = input.byte() << 13;
        args.local_vec_addr = reinterpret_cast<std::uintptr_t>(ranges);
        args.nr_local = input.byte() * 5;
    }
    size = input.byte() % 8 ? size : input.byte() % sizeof(payload);
    rds_abi_cmsghdr header{sizeof(header) + size, RDS_ABI_SOL_RDS, static_cast<int>(type)};
    auto *bytes = reinterpret_cast<const std::uint8_t *>(&header);
    controls.insert(controls.end(), bytes, bytes + sizeof(header));
    controls.insert(controls.end(), payload, payload + size);
    controls.resize(RDS_ABI_CMSG_ALIGN(controls.size()));
}

void any_send(Input &input, RdsSocket &socket, kapi_msg &msg, std::vector<std::uint8_t> controls)
{
    SocketName name(any_address(input));
    rds_send call{&msg, msg.size, name.bytes, 0, controls.data(), controls.size(), 0};
    call.name_length = input.byte() % 3 ? name.size : 0;
    call.flags = input.byte() % 0x80;
    unsigned more = input.byte();
    call.flags |= (more % 4 ? RDS_ABI_MSG_DONTWAIT : 0) | (more & 0x40 ? RDS_ABI_MSG_ZEROCOPY : 0);
    (void)rds_socket_sendmsg(socket.core(), &call);
}

void open(RdsSocket &socket)
{
    socket.open();
    socket.sk().rcvtimeo_ns = socket.sk().sndtimeo_ns = sim::kMillisecond;
}

void other_call(Input &input, RdsSocket &socket, kapi_msg &msg)
{
    std::uint8_t argument = static_cast<std::uint8_t>(msg.size);
    kapi_optval optval{&argument, argument % 8 ? sizeof(argument) : 0};
    std::vector<std::uint8_t> controls;
    switch (input.byte() % 8) {
    case 0:
        (void)rds_socket_ioctl(socket.core(), RDS_ABI_SIOCRDSSETTOS + input.byte() % 3, &optval);
        return;
    case 1:
        socket.close();
        return open(socket);
    case 2:
    case 3:
        for (unsigned count = 1 + input.byte() % 3; count; count--)
            add_control(input, controls);
        return any_send(input, socket, msg, controls);
    default:
        (void)socket.poll();
        socket.sk().rcvbuf = socket.sk().sndbuf = 100u << (input.byte() % 16);
        socket.sk().zerocopy = input.byte() % 2;
    }
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
        std::vector<std::uint8_t> control(input.byte() % 64);
        std::generate(control.begin(), control.end(), [&] { return static_cast<std::uint8_t>(input.byte()); });
        return any_send(input, socket, msg, control);
    }
    case 4: {
        rds_receive call{};
        call.msg = &msg;
        call.size = size;
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
        return other_call(input, socket, msg);
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
            open(*socket);
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
