# SPDX-License-Identifier: GPL-2.0
"""A scene: a shell script for every machine of a run, whose header lists its requirements.

    # lab: hosts=2 time=120 links=faulty mem=512
    # files: build/selftests/rds_api
    # modules: sch_tbf build/selftests/lab/{kver}/bite.ko
"""

import os
import re
from dataclasses import dataclass, field

HOST_NAMES = "abcdefgh"


class SceneError(Exception):
    """The header is invalid."""


@dataclass
class Scene:
    path: str               # of the script; empty for the interactive shell, which has none
    hosts: int = 1          # machines, named a, b, ...
    time: int = 60          # time limit in seconds on an idle host, without the boot
    links: str = "direct"   # direct: fastest; faulty: through the lab, for cuts, delays and losses
    mem: int = 512          # MiB for each machine
    cpus: int = 2           # for each machine
    segments: int = 1       # networks; eth0 is on the first, eth1 on the second
    mtu: int = 1500
    cmdline: tuple = ()     # more parameters for the kernel, each a word
    clock: str = "real"     # counted: one processor, one instruction a nanosecond, independent of the host's load
    share: bool = False     # may run in a boot that another scene has used
    suite: str = ""         # ours or kernel, for a scene about one suite; else from the command line
    expect: list = field(default_factory=list)      # the lab's own tests: patterns of reasons for which the scene must fail
    files: list = field(default_factory=list)       # host files for the guest's $PATH
    modules: list = field(default_factory=list)     # kernel modules, by name or (with a slash) by file

    @property
    def name(self):
        return os.path.basename(self.path)

    @property
    def host_names(self):
        return list(HOST_NAMES[:self.hosts])

    @property
    def needs(self):
        """Values that must be equal for scenes in one boot."""
        return (self.hosts, self.links, self.mem, self.cpus, self.segments, self.mtu, self.clock, self.suite, self.cmdline)


def parse(path, text):
    """Parses a script's text into a Scene; SceneError describes a fault in the header."""
    scene = Scene(path)
    for line in text.splitlines():
        if line and not line.startswith("#"):
            break   # the end of the header
        match = re.match(r"#\s*(lab|files|modules|expect):\s*(.*)", line)
        if not match:
            continue
        what, words = match[1], match[2].split()
        if what == "files":
            scene.files += words
        elif what == "modules":
            scene.modules += words
        elif what == "expect":
            scene.expect.append(match[2].strip())
        else:
            for word in words:
                _set(scene, word)
    if not 1 <= scene.hosts <= len(HOST_NAMES):
        raise SceneError(f"{path}: hosts={scene.hosts}")
    if scene.suite not in ("", "ours", "kernel"):
        raise SceneError(f"{path}: suite={scene.suite}")
    if scene.links not in ("direct", "faulty"):
        raise SceneError(f"{path}: links={scene.links}")
    if scene.clock not in ("real", "counted") or (scene.clock == "counted" and (scene.hosts, scene.cpus) != (1, 1)):
        raise SceneError(f"{path}: clock={scene.clock} hosts={scene.hosts} cpus={scene.cpus}")
    return scene


def load(path):
    with open(path, encoding="utf-8") as file:
        return parse(path, file.read())


def _set(scene, word):
    key, equals, value = word.partition("=")
    if key == "share" and not equals:
        scene.share = True
    elif key == "cmdline" and value:
        scene.cmdline += (value,)
    elif key in ("links", "clock", "suite"):
        setattr(scene, key, value)
    elif key in ("hosts", "time", "mem", "cpus", "segments", "mtu") and value.isdigit():
        setattr(scene, key, int(value))
    else:
        raise SceneError(f"{scene.path}: unknown setting {word}")
