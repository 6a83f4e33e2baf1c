# SPDX-License-Identifier: GPL-2.0
"""A kernel the lab can boot: a folder with vmlinuz, modules/, release, as made by scripts/kernels.sh."""

import lzma
import os
import re
import subprocess

from . import elf
from .architecture import ARCHITECTURES

# Names that a suite provides. The kernel's own are in an image only for machines of suite `kernel`.
SUITE_MODULES = frozenset("""
    hawser hawser_verbs rds rds_tcp rds_rdma kcm rtrs_core rtrs_client rtrs_server rnbd_client rnbd_server
""".split())

# Kernel modules in every image; their dependencies are added.
BASE_MODULES = """
    virtio_pci virtio_mmio virtio_console virtio_net virtio_rng
    veth dummy bridge sch_netem sch_prio sch_ingress cls_u32 cls_matchall act_gact
    crc32_generic crc32c_generic
    ib_core ib_cm iw_cm rdma_cm ib_uverbs rdma_ucm rdma_rxe
    null_blk
""".split()


class KernelError(Exception):
    """The kernel's folder is incomplete."""


def module_name(path):
    """The kernel's name for a module file."""
    return re.sub(r"\.ko(\.(xz|zst|gz))?$", "", os.path.basename(path)).replace("-", "_")


def read_module(path):
    """The bytes of a module file, decompressed."""
    if path.endswith(".xz"):
        with lzma.open(path) as file:
            return file.read()
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], check=True, stdout=subprocess.PIPE).stdout
    with open(path, "rb") as file:
        return file.read()


class Kernel:
    """`name` is the user's name for it (6.1), and of the folder of our modules for it."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = os.path.realpath(folder)
        try:
            with open(f"{self.folder}/release", encoding="utf-8") as file:
                self.release = file.read().strip()
        except OSError as error:
            raise KernelError(f"no kernel {name} in {folder}; see scripts/kernels.sh") from error
        self.image = f"{self.folder}/vmlinuz"
        self.guest = f"{self.folder}/guest"     # programs for its machines, if they are not of the host's architecture
        self.architecture = ARCHITECTURES[self._architecture_name()]
        self._needs = None

    def _architecture_name(self):
        try:
            with open(f"{self.folder}/architecture", encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return "amd64"

    def _dependencies(self):
        """Module name -> (path below modules/, names it needs), from modules.dep."""
        if self._needs is None:
            self._needs = {}
            with open(f"{self.folder}/modules/modules.dep", encoding="utf-8") as file:
                for line in file:
                    path, needs = line.split(":")
                    self._needs[module_name(path)] = (path, [module_name(need) for need in needs.split()])
        return self._needs

    def builtin(self):
        """Names of the built-in modules."""
        with open(f"{self.folder}/modules/modules.builtin", encoding="utf-8") as file:
            return {module_name(line.strip()) for line in file}

    def has(self, name):
        return name in self._dependencies()

    def closure(self, names, optional=False):
        """Paths below modules/ of the modules and their dependencies."""
        known, builtin, paths = self._dependencies(), None, {}
        stack = list(names)
        while stack:
            name = stack.pop().replace("-", "_")
            if name in paths:
                continue
            if name not in known:
                builtin = builtin or self.builtin()
                if not optional and name not in builtin:
                    raise KernelError(f"kernel {self.name} has no module {name}")
                continue
            path, needs = known[name]
            paths[name] = path
            stack += needs
        return sorted(paths.values())

    def read(self, path):
        return read_module(f"{self.folder}/modules/{path}")


def build_ids(files):
    """Module name -> build-id, of (path, bytes) pairs."""
    return {module_name(path): elf.build_id(data) for path, data in files}
