// SPDX-License-Identifier: GPL-2.0
// Programs that give each other memory over RDMA: regions, operations and their notices.
#pragma once

#include <cstring>
#include <optional>

#include "rds_rdma_test.h"

class RdmaMemoryTest : public RdmaTest {
protected:
    using Bytes = std::vector<unsigned char>;

    template <class T> struct Cmsg {
        Cmsg(int type, const T &data) : header{sizeof(rds_abi_cmsghdr) + sizeof(T), RDS_ABI_SOL_RDS, type}, data(data) {}
        rds_abi_cmsghdr header;
        T data;
    };
    static kapi_u64 place_of(const void *memory) { return reinterpret_cast<std::uintptr_t>(memory); }
    static Bytes pattern(std::size_t size, unsigned number)
    {
        std::string bytes = contents(size, number);
        return {bytes.begin(), bytes.end()};
    }

    void SetUp() override { load(); }
    /** Both sockets, and a message each way, so that there is a connection. */
    void open_both()
    {
        open(pa);
        open(pb);
        for (Program *program : {&pa, &pb})
            program->socket.sk().sndbuf = program->socket.sk().rcvbuf = 8 << 20;
        run(a, [&] { pa.send("hello"); });
        run(b, [&] {
            EXPECT_EQ(pb.receive(), "hello");
            pb.send("hello");
        });
        run(a, [&] { EXPECT_EQ(pa.receive(), "hello"); });
    }
    void close_both()
    {
        close(pa);
        close(pb);
        EXPECT_EQ(a.pinned_pages, 0u);
        EXPECT_EQ(b.pinned_pages, 0u);
    }

    // The following are for a task of the program's machine.
    static int get_mr(Program &program, void *memory, std::size_t size, kapi_u64 &cookie, kapi_u64 flags = 0)
    {
        rds_abi_get_mr_args args{{place_of(memory), size}, place_of(&cookie), flags};
        return program.socket.set_option(RDS_ABI_GET_MR, &args, sizeof(args));
    }
    static int free_mr(Program &program, kapi_u64 cookie)
    {
        rds_abi_free_mr_args args{cookie, 0};
        return program.socket.set_option(RDS_ABI_FREE_MR, &args, sizeof(args));
    }
    template <class T> static long send_with(Program &program, const T &control, const std::string &bytes, unsigned flags = 0)
    {
        SocketName name(sim::address(program.to, kPort));
        kapi_msg msg = sim::make_msg(bytes.data(), bytes.size(), {});
        rds_send call{&msg, bytes.size(), name.bytes, name.size, &control, sizeof(control), flags};
        return static_cast<long>(rds_socket_sendmsg(program.socket.core(), &call));
    }
    struct Operation {
        kapi_u64 cookie;
        kapi_u64 offset; // in the peer's memory
        std::vector<rds_abi_iovec> local;
        kapi_u64 flags = RDS_ABI_RDMA_READWRITE | RDS_ABI_RDMA_NOTIFY_ME;
        kapi_u64 token = 77;
        std::optional<kapi_u64> size{};

        rds_abi_rdma_args args() const
        {
            kapi_u64 bytes = 0;
            for (const auto &vector : local)
                bytes += vector.bytes;
            return {cookie, {offset, size.value_or(bytes)}, place_of(local.data()), local.size(), flags, token};
        }
    };
    static long operate(Program &program, const Operation &operation, const std::string &bytes = "done")
    {
        return send_with(program, Cmsg(RDS_ABI_CMSG_RDMA_ARGS, operation.args()), bytes);
    }
    struct Received {
        long result;
        std::string bytes;
        std::vector<rds_abi_rdma_notify> notices;
        std::optional<kapi_u64> cookie;
    };
    static Received receive(Program &program, unsigned flags = 0, std::size_t room = 256)
    {
        Inbox inbox;
        kapi_msg msg = sim::make_msg(inbox.data(), inbox.size(), {});
        msg.control_room = room;
        rds_receive call{};
        call.msg = &msg;
        call.size = inbox.size();
        call.flags = flags;
        Received received{static_cast<long>(rds_socket_recvmsg(program.socket.core(), &call)), {}, {}, {}};
        received.bytes = inbox.text(std::max(received.result, 0L));
        for (const auto &control : msg.control) {
            if (control.type == RDS_ABI_CMSG_RDMA_STATUS)
                std::memcpy(&received.notices.emplace_back(), control.data.data(), 12);
            if (control.type == RDS_ABI_CMSG_RDMA_DEST)
                std::memcpy(&received.cookie.emplace(), control.data.data(), 8);
        }
        return received;
    }
    /** The next notice, which is soon there. */
    rds_abi_rdma_notify next_notice(Program &program)
    {
        rds_abi_rdma_notify notice{0, -1};
        run(program.host.node(), [&] {
            program.socket.sk().rcvtimeo_ns = 20 * sim::kSecond;
            Received received = receive(program);
            EXPECT_EQ(received.result, 0);
            ASSERT_EQ(received.notices.size(), 1u);
            notice = received.notices[0];
        });
        return notice;
    }
    void expect_success(Program &program, kapi_u64 token = 77)
    {
        rds_abi_rdma_notify notice = next_notice(program);
        EXPECT_EQ(notice.status, RDS_ABI_RDMA_SUCCESS);
        EXPECT_EQ(notice.user_token, token);
    }
    /** The peer forbids it, and ends the connection: which of both comes first is open. */
    void expect_refusal(Program &program)
    {
        int status = next_notice(program).status;
        EXPECT_TRUE(status == RDS_ABI_RDMA_REMOTE_ERROR || status == RDS_ABI_RDMA_DROPPED) << status;
    }
    void expect_message(Program &program, const std::string &bytes)
    {
        run(program.host.node(), [&] { EXPECT_EQ(program.receive(), bytes); });
    }
    kapi_u64 region_on_b(void *memory, std::size_t size, kapi_u64 flags = 0)
    {
        kapi_u64 cookie = 0;
        run(b, [&] { EXPECT_EQ(get_mr(pb, memory, size, cookie, flags), 0); });
        return cookie;
    }

    Program pa = on_a(), pb = on_b();
};
