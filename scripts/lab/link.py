# SPDX-License-Identifier: GPL-2.0
"""The wires between machines.

Every network card of a machine is one end of a pair of unix datagram sockets, one frame a datagram. In a
direct network of two the other end is the other machine, and frames pass without us. In a faulty one the
other ends belong to a Switch in this process, which can cut, delay, lose, double and damage, for each
direction separately.
"""

import random
import re
import socket
from collections import deque
from dataclasses import dataclass

FRAME_MAX = 69632           # what QEMU takes at once
QUEUE_MAX = 1024            # frames that wait for a busy machine; more are lost, as in a real switch
BURST = 64                  # frames from one port before others have their turn
SOCKET_BUFFER = 1 << 22


class LinkError(Exception):
    """A scene requested something that a link cannot do."""


def make_pair():
    """Two connected ends of a wire."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        end.setblocking(False)
    return pair


@dataclass
class Faults:
    """What happens to frames in one direction between two machines."""

    cut: bool = False
    delay_ms: float = 0.0
    loss_pct: float = 0.0
    dup_pct: float = 0.0
    corrupt_pct: float = 0.0

    def apply(self, frame, rng):
        """The frames to deliver for this one: none, one or two."""
        if self.cut or (self.loss_pct and rng.random() * 100 < self.loss_pct):
            return []
        if self.corrupt_pct and rng.random() * 100 < self.corrupt_pct and len(frame) > 14:
            damaged = bytearray(frame)
            # The addresses stay, so that the frame arrives and the guest checks its checksums.
            damaged[rng.randrange(14, len(frame))] ^= 1 << rng.randrange(8)
            frame = bytes(damaged)
        if self.dup_pct and rng.random() * 100 < self.dup_pct:
            return [frame, frame]
        return [frame]

    def set(self, verb, values):
        """Applies a command of a scene: cut, up, clear, delay MS, loss PCT, dup PCT, corrupt PCT."""
        if verb in ("cut", "up") and not values:
            self.cut = verb == "cut"
        elif verb == "clear" and not values:
            self.__init__()
        elif verb in ("delay", "loss", "dup", "corrupt") and len(values) == 1:
            try:
                value = float(values[0])
            except ValueError:
                raise LinkError(f"link {verb}: {values[0]} is not a number") from None
            if value < 0 or (verb != "delay" and value > 100):
                raise LinkError(f"link {verb}: {values[0]} is out of range")
            setattr(self, "delay_ms" if verb == "delay" else f"{verb}_pct", value)
        else:
            raise LinkError(f"link: cannot do '{' '.join([verb, *values])}'")


class Port:
    """The switch's end of the wire to one machine."""

    def __init__(self, name, end):
        self.name = name
        self.end = end
        self.queue = deque()    # frames for the machine, which was busy
        self.dropped = 0


class Switch:
    """One network segment: a learning switch between all machines."""

    def __init__(self, loop, names, seed):
        self.loop = loop
        self.rng = random.Random(seed)
        self.ports = {}
        self.machine_ends = {}
        self.faults = {(a, b): Faults() for a in names for b in names if a != b}
        self._addresses = {}    # MAC -> port
        for name in names:
            ours, theirs = make_pair()
            self.ports[name] = Port(name, ours)
            self.machine_ends[name] = theirs
            loop.reader(ours, lambda port=self.ports[name]: self._receive(port))

    def command(self, verb, values, where=None):
        """Sets faults on all directions, or on those that `where` names: a, a-b or a-to-b."""
        for direction in self._directions(where):
            self.faults[direction].set(verb, values)

    def close(self):
        for port in self.ports.values():
            self.loop.forget(port.end)
            port.end.close()
        for end in self.machine_ends.values():
            end.close()

    def _directions(self, where):
        if where is None:
            return list(self.faults)
        if match := re.fullmatch(r"(\w)-to-(\w)", where):
            chosen = [(match[1], match[2])]
        elif match := re.fullmatch(r"(\w)-(\w)", where):
            chosen = [(match[1], match[2]), (match[2], match[1])]
        else:
            chosen = [pair for pair in self.faults if where in pair]
        if not chosen or any(pair not in self.faults for pair in chosen):
            raise LinkError(f"there is no link {where}")
        return chosen

    def _receive(self, port):
        for _ in range(BURST):
            try:
                frame = port.end.recv(FRAME_MAX)
            except BlockingIOError:
                return
            except OSError:
                return      # the machine is gone
            if len(frame) >= 14:
                self._forward(port, frame)

    def _forward(self, port, frame):
        self._addresses[frame[6:12]] = port
        target = None if frame[0] & 1 else self._addresses.get(frame[:6])
        if target is port:
            return
        for other in (target,) if target else self.ports.values():
            if other is not port:
                self._pass(self.faults[port.name, other.name], other, frame)

    def _pass(self, faults, port, frame):
        for arriving in faults.apply(frame, self.rng):
            if faults.delay_ms:
                # Timers due in order fire in order, so a delay alone reorders nothing.
                self.loop.after(faults.delay_ms / 1000, lambda arriving=arriving: self._send(port, arriving))
            else:
                self._send(port, arriving)

    def _send(self, port, frame):
        if port.queue:
            if len(port.queue) < QUEUE_MAX:
                port.queue.append(frame)
            else:
                port.dropped += 1
            return
        try:
            port.end.send(frame)
        except BlockingIOError:
            port.queue.append(frame)
            self.loop.writer(port.end, lambda: self._drain(port))
        except OSError:
            pass    # the machine is gone

    def _drain(self, port):
        while port.queue:
            try:
                port.end.send(port.queue[0])
            except BlockingIOError:
                return
            except OSError:
                pass
            port.queue.popleft()
        self.loop.writer(port.end, None)


class Direct:
    """One network segment of two machines (or one, without a peer), connected directly."""

    def __init__(self, names):
        ends = make_pair()
        self.machine_ends = dict(zip(names, ends))
        self._spare = ends[len(names):]

    def command(self, verb, values, where=None):
        raise LinkError("this scene's links are direct; say `# lab: links=faulty` in its header")

    def close(self):
        for end in (*self.machine_ends.values(), *self._spare):
            end.close()
