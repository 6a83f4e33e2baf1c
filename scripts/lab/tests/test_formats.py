# SPDX-License-Identifier: GPL-2.0
"""Formats that the lab reads and writes: frames, archives, ELF notes, headers of scenes."""

import os
import shutil
import subprocess
import tempfile
import unittest

from lab import cpio, elf, protocol, scene


class ProtocolTest(unittest.TestCase):
    def test_frames_survive_any_cut(self):
        frames = [protocol.Frame("req", 7, b"say\0a\nb"), protocol.Frame("bye", 0, b""),
                  protocol.Frame("kmsg", 0, bytes(range(256)))]
        data = b"".join(protocol.encode(*frame) for frame in frames)
        for step in (1, 2, 5, len(data)):
            decoder, got = protocol.Decoder(), []
            for at in range(0, len(data), step):
                got += decoder.feed(data[at:at + step])
            self.assertEqual(got, frames)

    def test_rubbish_is_refused(self):
        for data in (b"x" * 100, b"verb\n", b"verb 1 x\n", b"verb 0 99999999\n"):
            with self.assertRaises(protocol.ProtocolError):
                protocol.Decoder().feed(data)

    def test_payload_is_bounded(self):
        with self.assertRaises(protocol.ProtocolError):
            protocol.encode("put", 0, bytes(protocol.PAYLOAD_MAX + 1))


class CpioTest(unittest.TestCase):
    def test_cpio_reads_it(self):
        archive = cpio.Archive()
        archive.file("a/b/tool", b"#!/bin/sh\n", 0o755)
        archive.file("empty", b"")
        archive.link("a/link", "b/tool")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cpio", "-i", "--quiet"], input=archive.bytes(), cwd=folder, check=True)
            self.assertEqual(os.stat(f"{folder}/a/b/tool").st_mode & 0o777, 0o755)
            self.assertEqual(os.readlink(f"{folder}/a/link"), "b/tool")
            with open(f"{folder}/a/link", "rb") as file:
                self.assertEqual(file.read(), b"#!/bin/sh\n")
            self.assertEqual(os.path.getsize(f"{folder}/empty"), 0)


class ElfTest(unittest.TestCase):
    def test_same_build_id_as_readelf(self):
        program = os.path.realpath(shutil.which("ls"))
        with open(program, "rb") as file:
            ident = elf.build_id(file.read())
        output = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
        self.assertIn(f"Build ID: {ident}", output)

    def test_no_elf_has_none(self):
        self.assertIsNone(elf.build_id(b"#!/bin/sh\n"))


class SceneTest(unittest.TestCase):
    def test_header(self):
        got = scene.parse("dir/x.sh", "#!/bin/sh\n# lab: hosts=3 time=9 links=faulty share\n# files: a b\n"
                                      "# modules: sch_tbf\n\n# lab: mem=700\necho\n# lab: hosts=1\n")
        self.assertEqual((got.name, got.hosts, got.time, got.links, got.share, got.mem),
                         ("x.sh", 3, 9, "faulty", True, 700))
        self.assertEqual((got.files, got.modules, got.host_names), (["a", "b"], ["sch_tbf"], ["a", "b", "c"]))

    def test_kernel_parameters(self):
        got = scene.parse("x.sh", "# lab: hosts=2 cmdline=ipv6.disable=1 cmdline=quiet\n")
        self.assertEqual(got.cmdline, ("ipv6.disable=1", "quiet"))
        self.assertNotEqual(got.needs, scene.parse("y.sh", "# lab: hosts=2\n").needs)

    def test_mistakes_are_reported(self):
        for header in ("hosts=0", "hosts=99", "hosts=two", "links=fast", "speed=1", "share=1", "suite=x", "clock=fast",
                       "hosts=2 cpus=1 clock=counted", "cpus=2 clock=counted", "cmdline="):
            with self.assertRaises(scene.SceneError):
                scene.parse("x.sh", f"# lab: {header}\n")


if __name__ == "__main__":
    unittest.main()
