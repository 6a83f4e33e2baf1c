# SPDX-License-Identifier: GPL-2.0
"""The programs of Debian that a machine gets, and the shared libraries that they need."""

import glob
import os
import re
import subprocess

TOOLS = ("ip", "tc", "ss", "rdma", "bridge", "ethtool", "dash")
TOOL_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
BUSYBOX = "/bin/busybox"


class UserlandError(Exception):
    """A program or a library is missing."""


class Userland:
    """The programs of this host, or those of another architecture in the folder `root`."""

    def __init__(self, root=""):
        self._root = os.path.realpath(root) if root else ""
        self.busybox = f"{root}{BUSYBOX}"
        found = {name: self._find(name) for name in TOOLS}
        self.tools = {name: path for name, path in found.items() if path}     # name -> path on this host
        if not os.path.exists(self.busybox) or "ip" not in self.tools or "tc" not in self.tools:
            raise UserlandError(f"busybox, ip or tc is missing{' in ' * bool(root)}{root}; scripts/setup.sh lab installs what "
                                "the lab needs, scripts/kernels.sh what machines of another architecture do")

    def _find(self, name):
        paths = (f"{self._root}{folder}/{name}" for folder in TOOL_PATH)
        # A link with a whole path leads out of the root.
        return next((path for path in paths if os.access(path, os.X_OK) and os.path.realpath(path).startswith(self._root)), None)

    @staticmethod
    def applets():
        """The names by which busybox is called: those of this host's, which is of the same release."""
        return subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()

    def libraries(self, path):
        """{path in the machine: path on this host} of the shared libraries of a program; none for a static one."""
        if self._root:
            return self._found(path)
        result = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
        if result.returncode:
            return {}
        words = [word for line in result.stdout.splitlines() for word in line.split()]
        if "not" in words:
            raise UserlandError(f"{path}: a shared library is missing:\n{result.stdout}")
        return {word: word for word in words if word.startswith("/")}

    def _found(self, path):
        """The same by reading the files: ldd runs the program, which this host's processor cannot."""
        libraries, unread = {}, [path]
        while unread:
            for name in _names(unread.pop()):
                place = name if name.startswith("/") else self._place(name)
                if place not in libraries:
                    libraries[place] = os.path.realpath(f"{self._root}{place}")
                    unread.append(libraries[place])
        return libraries

    def _place(self, name):
        for folder in ("/lib", "/usr/lib"):
            for place in glob.glob(f"{self._root}{folder}/*-linux-gnu/{name}"):
                return place.removeprefix(self._root)
        raise UserlandError(f"the library {name} is missing in {self._root}")


def _names(path):
    """A program's loader, by its path, and the names of the libraries that it or a library needs."""
    text = subprocess.run(["readelf", "-ld", path], capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    return re.findall(r"program interpreter: (/\S+)\]", text) + re.findall(r"\(NEEDED\).*\[(\S+)\]", text)
