# SPDX-License-Identifier: GPL-2.0
"""Notes of ELF files. One of them, the build-id, identifies a loaded module."""

import struct

SECTION_NOTE = 7
NOTE_BUILD_ID = 3


def build_id(data):
    """Returns the GNU build-id of the ELF64 image `data` in hex, or None if it has none."""
    for name, kind, body in _notes(data):
        if name == b"GNU\0" and kind == NOTE_BUILD_ID:
            return body.hex()
    return None


def has_note(data, wanted_name, wanted_kind):
    """True if the ELF64 image has this note."""
    return any(name == wanted_name and kind == wanted_kind for name, kind, _ in _notes(data))


def _notes(data):
    """(name, type, body) of every note in the image's note sections."""
    if data[:6] != b"\x7fELF\x02\x01":
        return
    sections_at, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for number in range(count):
        kind, = struct.unpack_from("<I", data, sections_at + number * size + 4)
        offset, length = struct.unpack_from("<QQ", data, sections_at + number * size + 24)
        if kind == SECTION_NOTE:
            yield from _section_notes(data[offset:offset + length])


def _section_notes(notes):
    at = 0
    while at + 12 <= len(notes):
        name_length, length, kind = struct.unpack_from("<III", notes, at)
        body = at + 12 + (name_length + 3) // 4 * 4
        yield notes[at + 12:at + 12 + name_length], kind, notes[body:body + length]
        at = body + (length + 3) // 4 * 4
