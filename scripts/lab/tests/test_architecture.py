# SPDX-License-Identifier: GPL-2.0
"""Tests of what differs between machines of different processors."""

import os
import tempfile
import unittest

from lab.architecture import ARCHITECTURES
from lab.image import BUILT
from lab.kernel import Kernel
from lab.userland import Userland, UserlandError


def write(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


class ArchitectureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        write(f"{self.folder}/release", "6.12.1\n")

    def test_kernel_says_its_architecture(self):
        write(f"{self.folder}/architecture", "arm64\n")
        self.assertIs(Kernel("x", self.folder).architecture, ARCHITECTURES["arm64"])

    def test_kernel_that_does_not_is_the_hosts(self):
        self.assertIs(Kernel("x", self.folder).architecture, ARCHITECTURES["amd64"])

    def test_programs_of_another_architecture_are_not_the_hosts(self):
        for name in ("bin/busybox", "bin/ip", "sbin/tc"):
            write(f"{self.folder}/guest/{name}")
        os.symlink("/bin/sh", f"{self.folder}/guest/bin/dash")      # leads to the host's
        userland = Userland(f"{self.folder}/guest")
        root = os.path.realpath(f"{self.folder}/guest")
        self.assertEqual(userland.tools, {"ip": f"{root}/bin/ip", "tc": f"{root}/sbin/tc"})

    def test_missing_programs_are_reported(self):
        write(f"{self.folder}/guest/bin/busybox")
        with self.assertRaises(UserlandError):
            Userland(f"{self.folder}/guest")

    def test_programs_have_a_folder_for_each_architecture(self):
        suffix = ARCHITECTURES["arm64"].suffix
        for word, expected in (("build/selftests/data", "build/selftests-arm64/data"), ("build/static/x", "build/static-arm64/x"),
                               ("selftests/rds/story.sh", "selftests/rds/story.sh")):
            self.assertEqual(BUILT.sub(rf"\g<0>{suffix}", word), expected)
