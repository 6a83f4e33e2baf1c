# SPDX-License-Identifier: GPL-2.0
"""A scene: a shell script for every machine of a run, whose header says what it needs.

    # lab: hosts=2 time=120 links=faulty mem=512
    # files: build/selftests/rds_api
    # modules: sch_tbf build/selftests/lab/{kver}/bite.ko
"""

import os
import re
from dataclasses import dataclass, field

HOST_NAMES = "abcdefgh"


class SceneError(Exception):
    """The header asks for something that does not exist."""


@dataclass
class Scene:
    path: str               # of the script; empty for the interactive shell, which has none
    hosts: int = 1          # machines, named a, b, ...
    time: int = 60          # seconds it may take on an idle workplace, boot not counted
    links: str = "direct"   # direct: fastest; faulty: through the lab, which can cut, delay and lose
    mem: int = 512          # MiB for each machine
    cpus: int = 2           # for each machine
    segments: int = 1       # networks; eth0 is on the first, eth1 on the second
    mtu: int = 1500
    clock: str = "real"     # counted: one processor, whose nanosecond is an instruction, whatever else the workplace does
    share: bool = False     # may run in a boot that another scene has used
    suite: str = ""         # ours or kernel: the scene is about one suite; else the command line says
    expect: list = field(default_factory=list)      # the lab's own tests: patterns of why the scene must fail
    files: list = field(default_factory=list)       # host files that the guest finds in $PATH
    modules: list = field(default_factory=list)     # kernel modules, by name or (with a slash) by file

    @property
    def name(self):
        return os.path.basename(self.path)

    @property
    def host_names(self):
        return list(HOST_NAMES[:self.hosts])

    @property
    def needs(self):
        """What scenes that run in one boot must agree on."""
        return (self.hosts, self.links, self.mem, self.cpus, self.segments, self.mtu, self.clock, self.suite)


def parse(path, text):
    """Makes a Scene of a script's text; SceneError tells what is wrong with the header."""
    scene = Scene(path)
    for line in text.splitlines():
        if line and not line.startswith("#"):
            break   # the header ends where the script begins
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
    elif key in ("links", "clock", "suite"):
        setattr(scene, key, value)
    elif key in ("hosts", "time", "mem", "cpus", "segments", "mtu") and value.isdigit():
        setattr(scene, key, int(value))
    else:
        raise SceneError(f"{scene.path}: unknown setting {word}")
