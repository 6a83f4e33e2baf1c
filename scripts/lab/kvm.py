# SPDX-License-Identifier: GPL-2.0
"""Finds out whether KVM really works here: /dev/kvm that opens is not enough inside clouds and containers."""

import functools
import os
import subprocess
import tempfile

FIRMWARE_SIZE = 65536
RESET_VECTOR = FIRMWARE_SIZE - 16
EXIT_PORT = 0xF4
EXIT_VALUE = 0x10
MOV_AL, OUT_AL, HLT = 0xB0, 0xE6, 0xF4
PROBE_SECONDS = 5


@functools.cache
def works(qemu):
    """True if a processor of a virtual machine runs an instruction: the firmware's first one ends QEMU."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    firmware = bytearray(FIRMWARE_SIZE)
    firmware[RESET_VECTOR:RESET_VECTOR + 5] = bytes([MOV_AL, EXIT_VALUE, OUT_AL, EXIT_PORT, HLT])
    with tempfile.NamedTemporaryFile(prefix="lab-kvm-") as file:
        file.write(firmware)
        file.flush()
        command = [qemu, "-nodefaults", "-no-user-config", "-display", "none",
                   "-machine", "q35", "-cpu", "max", "-accel", "kvm", "-bios", file.name,
                   "-device", f"isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1"]
        try:
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            return False
    return code == EXIT_VALUE << 1 | 1
