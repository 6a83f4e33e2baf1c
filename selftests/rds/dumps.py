# SPDX-License-Identifier: GPL-2.0
"""Dumps of many RDS sockets over netlink, by a program that reads as it likes.

    dumps.py count ADDRESS NUMBER    opens so many sockets and dumps them: each is there once, also when others close meanwhile
    dumps.py hold ADDRESS NUMBER     dumps them, reads a part, closes the sockets, prints "held", and goes on at the end of stdin
    dumps.py fill ADDRESS NUMBER PEER...
                                     sends so many messages to each peer, and three that stay unread to itself, prints "held",
                                     and ends at the end of stdin
"""

import socket
import struct
import sys

SOCKET_GET = 3
GENL_ID_CTRL, CTRL_GETFAMILY, CTRL_FAMILY_ID, CTRL_FAMILY_NAME = 16, 3, 1, 2
NLM_REQUEST, NLM_DUMP, NLMSG_ERROR, NLMSG_DONE = 1, 0x300, 2, 3
LOCAL_PORT = 2


def attributes(data):
    """The attributes of a message or of an attribute: type -> bytes."""
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack("HH", data[:4])
        found[kind & 0x3fff] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def ask(link, family, command, flags, data=b""):
    body = struct.pack("BBH", command, 1, 0) + data
    link.send(struct.pack("IHHII", 16 + len(body), family, flags | NLM_REQUEST, 1, 0) + body)


def messages(link):
    """What one recv() returns: (type, contents)."""
    data = link.recv(65536)
    while data:
        length, kind = struct.unpack("IH", data[:6])
        yield kind, data[16:length]
        data = data[(length + 3) & ~3:]


def open_link():
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    link.bind((0, 0))
    name = b"hawser\0"
    ask(link, GENL_ID_CTRL, CTRL_GETFAMILY, 0, struct.pack("HH", 4 + len(name), CTRL_FAMILY_NAME) + name + b"\0")
    (_, answer), = messages(link)
    return link, struct.unpack("H", attributes(answer[4:])[CTRL_FAMILY_ID])[0]


def read_dump(link, on_piece=lambda: None):
    """The local ports of all sockets, and in how many pieces they came."""
    ports, pieces = [], 0
    while True:
        pieces += 1
        for kind, contents in messages(link):
            if kind == NLMSG_DONE:
                return ports, pieces
            if kind == NLMSG_ERROR:
                raise OSError(-struct.unpack("i", contents[:4])[0], "dump")
            ports.append(struct.unpack("I", attributes(contents[4:])[LOCAL_PORT])[0])
        on_piece()


def rds_socket(address):
    one = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    one.bind((address, 0))
    return one


def fill(address, number, peers):
    reader, sender = rds_socket(address), rds_socket(address)
    sender.setblocking(False)
    for length in (1, 2, 3):
        sender.sendto(b"x" * length, reader.getsockname())
    for peer in peers:
        for _ in range(number):
            sender.sendto(b"waits", (peer, 9))
    print("held", flush=True)
    sys.stdin.read()


def main():
    what, address, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "fill":
        fill(address, number, sys.argv[4:])
        return
    sockets = [rds_socket(address) for _ in range(number)]
    link, family = open_link()
    ask(link, family, SOCKET_GET, NLM_DUMP)
    if what == "count":
        ports, pieces = read_dump(link)
        assert pieces > 2, f"it came in {pieces} pieces"
        assert len(ports) == number and len(set(ports)) == number, f"{len(ports)} sockets, {len(set(ports))} ports"
        ask(link, family, SOCKET_GET, NLM_DUMP)
        ports, _ = read_dump(link, lambda: [sockets.pop().close() for _ in range(min(50, len(sockets) // 2))])
        assert len(ports) == len(set(ports)) <= number, f"{len(ports)} sockets, {len(set(ports))} ports"
        assert len(ports) >= len(sockets), f"{len(ports)} of {len(sockets)} that stay"
    else:
        assert len(list(messages(link))) < number
        for one in sockets:
            one.close()
        print("held", flush=True)
        sys.stdin.read()


main()
