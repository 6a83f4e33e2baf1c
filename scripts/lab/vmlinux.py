# SPDX-License-Identifier: GPL-2.0
"""Extracts the uncompressed kernel from a bzImage.

An emulated processor takes several seconds to unpack the kernel; the host takes half a second, and QEMU
boots the unpacked one by the PVH protocol, if the kernel supports it.
"""

import gzip
import lzma
import struct
import subprocess

from . import elf

XEN_PHYS32_ENTRY = 18   # the note that holds the PVH entry point


def extract(bzimage):
    """The bytes of the ELF kernel in the bytes of a bzImage, or None if it cannot be booted like that."""
    if bzimage[0x202:0x206] != b"HdrS":
        return None
    sectors = bzimage[0x1F1] or 4
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    start = (sectors + 1) * 512 + offset
    kernel = _decompress(bzimage[start:start + length])
    if kernel is None or not elf.has_note(kernel, b"Xen\0", XEN_PHYS32_ENTRY):
        return None
    return kernel


def _decompress(payload):
    # The kernel's build appends the unpacked size to the packed data, where decompressors must ignore it. Data of
    # gzip ends with that size anyway.
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return gzip.decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        result = subprocess.run(["zstd", "-dcq"], input=payload[:-4], stdout=subprocess.PIPE, check=False)
        return result.stdout if result.returncode == 0 else None
    return None
