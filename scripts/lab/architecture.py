# SPDX-License-Identifier: GPL-2.0
"""What differs between machines of different processors: QEMU, its board, the console, and where programs come from."""

from typing import NamedTuple


class Architecture(NamedTuple):
    qemu: str               # QEMU's program
    board: tuple            # its arguments for board and processor
    console: str            # the kernel's name of the board's first serial port
    compiler: str           # for the programs of the lab itself
    suffix: str             # of the build folders of test programs: build/selftests, build/selftests-arm64
    native: bool            # the lab's hosts are like it: KVM may work, and machines get the host's programs
    slowness: float         # how much longer a scene may take than on native machines


# By Debian's names. Pointer authentication as the architecture describes it takes most of an emulated processor's time.
ARCHITECTURES = {
    "amd64": Architecture("qemu-system-x86_64", ("-machine", "q35,usb=off", "-cpu", "max"), "ttyS0", "gcc", "", True, 1),
    "arm64": Architecture("qemu-system-aarch64", ("-machine", "virt", "-cpu", "max,pauth-impdef=on"), "ttyAMA0",
                          "aarch64-linux-gnu-gcc", "-arm64", False, 2),
}
