# SPDX-License-Identifier: GPL-2.0
"""Makes the file system that a machine boots into.

It is two concatenated archives: one that depends on the kernel and the host only (busybox, ip, tc, the
kernel's modules), which is kept between runs, and one for this run (scenes, their files, our
modules).
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import NamedTuple

from . import cpio, vmlinux
from .architecture import ARCHITECTURES
from .kernel import BASE_MODULES, SUITE_MODULES, build_ids, module_name, read_module
from .userland import Userland

GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest")
# Folders of programs, of which there is one for each architecture.
BUILT = re.compile(r"^build/(selftests|static)\b")
SOURCES = (".c", ".h")  # the files of the agent
CLIENTS = ("barrier", "link", "say", "put", "lab")


class ImageError(Exception):
    """A file for the image is missing."""


class Image(NamedTuple):
    kernel: str         # path of the kernel that QEMU boots
    files: str          # path of the first file system
    build_ids: dict     # {suite: {module: build-id}}


class Builder:
    """Makes images for one worktree; `build` is its build folder."""

    def __init__(self, top):
        self.top = top
        self.folder = f"{top}/build/lab"
        os.makedirs(self.folder, exist_ok=True)

    def program(self, name, sources, architecture=ARCHITECTURES["amd64"]):
        """Compiles a program of the lab if one of its files is newer; returns the program's path."""
        program = f"{self.folder}/{name}{architecture.suffix}"
        if not os.path.exists(program) or os.path.getmtime(program) < max(map(os.path.getmtime, sources)):
            partial = f"{program}.{os.getpid()}"
            subprocess.run([architecture.compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-static",
                            "-o", partial, *(source for source in sources if source.endswith(".c"))], check=True)
            os.rename(partial, program)
        return program

    def tsc_khz(self):
        """The frequency of the host's time stamp counter."""
        source = os.path.join(os.path.dirname(GUEST), "tsc_khz.c")
        return int(subprocess.run([self.program("tsc_khz", [source])], check=True, capture_output=True).stdout)

    def build(self, kernel, scenes, work):
        """Writes the image for these scenes on this kernel to work/KERNEL.cpio; returns an Image."""
        named = [word.rstrip("?") for scene in scenes for word in scene.modules
                 if "/" not in word and (not word.endswith("?") or kernel.has(module_name(word[:-1])))]
        ours = self._our_modules(kernel)
        base_paths = kernel.closure(BASE_MODULES, optional=True)
        base_paths = sorted(set(base_paths) | set(kernel.closure(named)))
        own_paths = [path for path in kernel.closure(SUITE_MODULES, optional=True)]
        base_paths = sorted(set(base_paths) | {path for path in own_paths
                                               if module_name(path) not in SUITE_MODULES})
        own_paths = [path for path in own_paths if module_name(path) in SUITE_MODULES]
        userland = Userland("" if kernel.architecture.native else kernel.guest)
        base = self._base(kernel, base_paths, userland)
        modules = {"ours": [(f"updates/{os.path.basename(path)}", data) for path, data in ours],
                   "kernel": [(_plain(path), kernel.read(path)) for path in own_paths]}
        for suite, files in modules.items():
            files += self._rnbd_modules(kernel, suite)
        ids = {suite: build_ids(files) for suite, files in modules.items()}
        archive = cpio.Archive()
        for suite, files in modules.items():
            for path, data in files:
                archive.file(f"lib/modules/{kernel.release}/{path}", data)
            for name, data in self._indexes(kernel, base, files):
                archive.file(f"lib/modules/{kernel.release}/{name}.{suite}", data)
        archive.file("lab/build-ids", "".join(f"{suite} {name} {ident}\n" for suite, names in ids.items()
                                              for name, ident in sorted(names.items())).encode())
        self._add_guest(archive, kernel.architecture)
        for number, scene in enumerate(scenes):
            self._add_scene(archive, kernel, userland, number, scene)
        path = f"{work}/{kernel.name}.cpio"
        with open(path, "wb") as out:
            with open(f"{base}/base.cpio", "rb") as file:
                shutil.copyfileobj(file, out)
            out.write(archive.bytes())
        return Image(f"{base}/vmlinux", path, ids)

    def _our_modules(self, kernel):
        """(path, bytes) of every module that this worktree has built for the kernel."""
        folder = f"{self.top}/build/modules/{kernel.name}"
        modules = []
        for parent, _, names in os.walk(folder, followlinks=True):
            for name in sorted(names):
                if name.endswith(".ko"):
                    with open(f"{parent}/{name}", "rb") as file:
                        modules.append((f"{parent}/{name}", file.read()))
        return modules

    def _rnbd_modules(self, kernel, suite):
        """(path, bytes) of what scripts/rnbd.sh has built of the kernel's source for a suite; none if it did not run."""
        folder = f"{self.top}/build/rnbd/{kernel.name}/{suite}"
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [(f"rnbd-{suite}/{name}", read_module(f"{folder}/{name}")) for name in names if name.endswith(".ko")]

    def _base(self, kernel, module_paths, userland):
        """The folder with base.cpio and the tree of plain modules for depmod, made if missing."""
        key = hashlib.sha256("\n".join([kernel.folder, kernel.release, *module_paths]).encode())
        for path in (userland.busybox, *userland.tools.values(), kernel.image, __file__):
            if os.path.exists(path):
                status = os.stat(path)
                key.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
        folder = f"{self.folder}/base-{kernel.name}-{key.hexdigest()[:12]}"
        if os.path.exists(folder):
            return folder
        partial = tempfile.mkdtemp(dir=self.folder)
        archive = cpio.Archive()
        for path in ("proc", "sys", "dev", "run", "tmp", "root", "etc", "lab/work", "lab/files"):
            archive.folder(path)
        _add_tools(archive, userland)
        tree = f"{partial}/lib/modules/{kernel.release}"
        for path in module_paths:
            data = kernel.read(path)
            archive.file(f"lib/modules/{kernel.release}/{_plain(path)}", data)
            _write(f"{tree}/{_plain(path)}", data)
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            with open(f"{kernel.folder}/modules/{name}", "rb") as file:
                data = file.read()
            _write(f"{tree}/{name}", data)
            archive.file(f"lib/modules/{kernel.release}/{name}", data)
        _write(f"{partial}/base.cpio", archive.bytes())
        with open(kernel.image, "rb") as file:
            plain = vmlinux.extract(file.read())
        if plain:
            _write(f"{partial}/vmlinux", plain)
        else:
            os.symlink(kernel.image, f"{partial}/vmlinux")
        try:
            os.rename(partial, folder)
        except OSError:     # another run made it
            shutil.rmtree(partial)
        return folder

    def _add_guest(self, archive, architecture):
        archive.copy("init", f"{GUEST}/init")
        sources = [f"{GUEST}/{name}" for name in sorted(os.listdir(GUEST)) if name.endswith(SOURCES)]
        archive.copy("lab/bin/agent", self.program("agent", sources, architecture))
        for client in CLIENTS:
            archive.link(f"lab/bin/{client}", "agent")
        for name in os.listdir(GUEST):
            if name != "init" and not name.endswith(SOURCES):
                archive.copy(f"lab/bin/{name}", f"{GUEST}/{name}")

    def _add_scene(self, archive, kernel, userland, number, scene):
        if scene.path:
            archive.copy(f"lab/scenes/{number}", scene.path)
        for word in scene.files + [word for word in scene.modules if "/" in word]:
            word = BUILT.sub(rf"\g<0>{kernel.architecture.suffix}", word.format(kver=kernel.name))
            source = os.path.join(self.top, word)
            if not os.path.exists(source):
                raise ImageError(f"{scene.path} needs {source}, which is not there")
            _add_program(archive, userland, f"lab/files/{os.path.basename(source)}", source)

    def _indexes(self, kernel, base, files):
        """Runs depmod on the base's modules and these files; gives (name, bytes) of its text indexes."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            shutil.copytree(f"{base}/lib", f"{folder}/lib", copy_function=os.link)
            tree = f"{folder}/lib/modules/{kernel.release}"
            for path, data in files:
                _write(f"{tree}/{path}", data)
            subprocess.run(["/sbin/depmod", "-b", folder, kernel.release], check=True)
            for name in ("modules.dep", "modules.alias", "modules.symbols", "modules.softdep"):
                with open(f"{tree}/{name}", "rb") as file:
                    yield name, file.read()


def _add_tools(archive, userland):
    archive.copy("bin/busybox", userland.busybox)
    for name in userland.applets():
        if name not in ("busybox", "sh", *userland.tools):
            archive.link(f"bin/{name}", "busybox")
    archive.link("sbin/modprobe", "../bin/busybox")     # the kernel's default path
    for name, path in userland.tools.items():
        _add_program(archive, userland, f"usr/sbin/{name}", path)
    # Not busybox's shell, which prefers its applets, e.g. `ip`, to programs in $PATH.
    archive.link("bin/sh", "../usr/sbin/dash")
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")


def _add_program(archive, userland, path, source):
    archive.copy(path, source)
    if os.path.isfile(source):
        for library, file in userland.libraries(source).items():
            if library not in archive:
                archive.copy(library, file)


def _plain(path):
    """The name of a module file once it is decompressed."""
    return path[:path.rindex(".ko") + 3]


def _write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
