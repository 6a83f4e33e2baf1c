# SPDX-License-Identifier: GPL-2.0
"""The probe of KVM: its program must be correct on a host with a working emulator."""

import unittest

from lab import kvm
from lab.architecture import ARCHITECTURES


class ProgramTest(unittest.TestCase):
    def test_it_ends_an_emulated_machine(self):
        self.assertTrue(kvm.program_ends(ARCHITECTURES["amd64"].qemu, "tcg", seconds=60))


if __name__ == "__main__":
    unittest.main()
