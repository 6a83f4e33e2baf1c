# SPDX-License-Identifier: GPL-2.0
"""Frames on the control port: a line "VERB ID LENGTH" and LENGTH bytes, the same in both directions."""

from typing import NamedTuple

PAYLOAD_MAX = 65536
HEAD_MAX = 64


class Frame(NamedTuple):
    verb: str
    id: int
    payload: bytes


class ProtocolError(Exception):
    """The machine sent invalid data."""


def encode(verb, ident=0, payload=b""):
    if len(payload) > PAYLOAD_MAX:
        raise ProtocolError(f"payload of {len(payload)} bytes")
    return b"%s %d %d\n" % (verb.encode(), ident, len(payload)) + payload


class Decoder:
    """Collects bytes and returns complete frames."""

    def __init__(self):
        self._bytes = bytearray()

    def feed(self, data):
        """Adds data; returns the list of frames that it completed."""
        self._bytes += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self):
        end = self._bytes.find(b"\n")
        if end < 0:
            if len(self._bytes) > HEAD_MAX:
                raise ProtocolError("no end of line")
            return None
        words = bytes(self._bytes[:end]).split()
        try:
            verb, ident, length = words[0].decode(), int(words[1]), int(words[2])
        except (IndexError, ValueError) as error:
            raise ProtocolError(f"bad head {bytes(self._bytes[:end])!r}") from error
        if length > PAYLOAD_MAX:
            raise ProtocolError(f"payload of {length} bytes")
        if len(self._bytes) < end + 1 + length:
            return None
        payload = bytes(self._bytes[end + 1:end + 1 + length])
        del self._bytes[:end + 1 + length]
        return Frame(verb, ident, payload)
