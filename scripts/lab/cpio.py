# SPDX-License-Identifier: GPL-2.0
"""Writes the "newc" archives that the kernel unpacks as its first file system, without root or cpio."""

import os
import stat


class Archive:
    """Paths and their contents. Missing parent folders are made; the later of two equal paths wins."""

    def __init__(self):
        self._entries = {}

    def folder(self, path):
        self._add(path, stat.S_IFDIR | 0o755, b"")

    def file(self, path, data, mode=0o644):
        self._add(path, stat.S_IFREG | mode, data)

    def link(self, path, target):
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def copy(self, path, source):
        """Adds a host file, or the tree of a host folder. Links are followed."""
        if os.path.isdir(source):
            self.folder(path)
            for name in sorted(os.listdir(source)):
                self.copy(f"{path}/{name}", os.path.join(source, name))
            return
        with open(source, "rb") as file:
            self.file(path, file.read(), stat.S_IMODE(os.stat(source).st_mode) | 0o444)

    def __contains__(self, path):
        return path.strip("/") in self._entries

    def _add(self, path, mode, data):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self._entries:
            self.folder(parent)
        self._entries[path] = (mode, data)

    def bytes(self):
        """The archive. Archives may be concatenated: later files replace earlier ones."""
        parts = []
        # A folder's name is a prefix of its files' names, so sorted order creates folders first.
        for number, (path, (mode, data)) in enumerate(sorted(self._entries.items()), 1):
            parts.append(_entry(number, path, mode, data))
        parts.append(_entry(0, "TRAILER!!!", 0, b""))
        archive = b"".join(parts)
        return archive + b"\0" * (-len(archive) % 512)


def _entry(number, path, mode, data):
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
