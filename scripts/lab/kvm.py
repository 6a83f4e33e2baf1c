# SPDX-License-Identifier: GPL-2.0
"""Finds out whether KVM really works here: /dev/kvm that opens is not enough inside clouds and containers."""

import functools
import os
import subprocess
import tempfile
import threading

FIRMWARE_SIZE = 65536
RESET_VECTOR = FIRMWARE_SIZE - 16
EXIT_PORT = 0xF4
EXIT_VALUE = 0x10
# KVM without hardware support (kvm_pvm, in clouds) emulates privileged code of ordinary kernels, and implements few instructions:
# not this one, which processors have had since 2008.
POPCNT_AX_AX = bytes([0xF3, 0x0F, 0xB8, 0xC0])
MOV_AL, OUT_AL, HLT = 0xB0, 0xE6, 0xF4
PROGRAM = POPCNT_AX_AX + bytes([MOV_AL, EXIT_VALUE, OUT_AL, EXIT_PORT, HLT])
PROBE_SECONDS = 5     # for a QEMU that hangs without a word


@functools.cache
def works(qemu):
    """True if KVM lets a processor of a virtual machine run instructions."""
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and program_ends(qemu, "kvm")


def program_ends(qemu, accelerator, seconds=PROBE_SECONDS):
    """True if the firmware's first instructions end QEMU in this time, as they should."""
    firmware = bytearray(FIRMWARE_SIZE)
    firmware[RESET_VECTOR:RESET_VECTOR + len(PROGRAM)] = PROGRAM
    with tempfile.NamedTemporaryFile(prefix="lab-kvm-") as file:
        file.write(firmware)
        file.flush()
        return _run([qemu, "-nodefaults", "-no-user-config", "-display", "none",
                     "-machine", "q35", "-cpu", "max", "-accel", accelerator, "-bios", file.name,
                     "-device", f"isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1"], seconds) == EXIT_VALUE << 1 | 1


def _run(command, seconds):
    """The exit code of QEMU, which prints an error of KVM and then hangs."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        if any(b"KVM internal error" in line for line in process.stderr):
            process.kill()
        code = process.wait()
        timer.cancel()
    return code
