# SPDX-License-Identifier: GPL-2.0
"""Reads selftests/plan: what there is to check, where, and in which time."""

import fnmatch
import os
from dataclasses import dataclass, field

from lab import scene as scenes

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PLAN = f"{TOP}/selftests/plan"
OUT = f"{TOP}/build/check"

SCENE_RINGS = ("lab", "interop")
RINGS = ("prepare", "static", "unit", "sim", "fuzz", "bench", *SCENE_RINGS)
LEVELS = ("quick", "all", "newest", "rt", "arm64")
APART = ("newest", "rt", "arm64")   # levels that have no step of another
PLAN_LEVELS = {"both": ("quick", "all"), **{level: (level,) for level in LEVELS}}   # first word of a line: where it runs


class PlanError(Exception):
    """A line of the plan cannot be understood."""


@dataclass
class Step:
    """A line of the plan, or one combination of machines of it, and its result."""

    ring: str
    name: str
    command: list
    levels: tuple               # of LEVELS
    budget: int                 # expected seconds on two idle processors without KVM
    json: str = ""              # the command's result file, else its output is read
    attempts: int = 1           # maximum number of runs; see scene_step
    machines: int = 0           # virtual machines of a scene
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0    # of all processes of the step
    reasons: list = field(default_factory=list)     # why it failed
    earlier: list = field(default_factory=list)     # why earlier attempts failed
    log: str = ""

    @property
    def title(self):
        return f"{self.ring}/{self.name}"

    @property
    def late(self):
        return self.seconds > self.budget

    def as_dict(self):
        return {"ring": self.ring, "name": self.name, "passed": self.passed, "failed": self.failed,
                "seconds": round(self.seconds, 1), "cpu_seconds": round(self.cpu_seconds, 1),
                "budget": self.budget, "reasons": self.reasons,
                "log": os.path.relpath(self.log, TOP) if self.log else ""}


def scene_step(ring, scene, machines, number, **terms):
    """The step for a scene on these machines, written as in the plan; `terms` are its levels and budget.

    Where every machine has the kernel's own modules, nothing of the suite runs: the step checks what the scene expects.
    Those modules have lost a message in CI, which is no fault of the suite: such a step has two attempts. So has `tools_rdma`,
    where in one of some ten runs on a busy machine a connection was lost during an operation: why is not known yet. So has
    `rnbd` where one side is the kernel's own RTRS, which stands still on Soft-RoCE when a registration is sent again
    (Documentation/infiniband/rtrs.rst, Limits).
    """
    result = f"{OUT}/scene-{number}.json"
    command = [f"{TOP}/scripts/lab/lab", "run", "--json", result]
    specs = machines.split("/")
    if len(specs) == 1:
        command += ["--default-host", machines]
    for host, spec in zip("abcdefgh", specs if len(specs) > 1 else []):
        command += ["--host", f"{host}={spec}"]
    name = os.path.basename(scene).removesuffix(".sh")
    own = [spec.endswith(":kernel") for spec in specs]
    attempts = 2 if all(own) or name == "tools_rdma" or (name == "rnbd" and any(own)) else 1
    return Step(ring, f"{name} {machines}", [*command, scene], json=result, attempts=attempts,
                machines=machines_of(scene), **terms)


def machines_of(scene):
    """How many virtual machines a scene needs; one that cannot be read fails when it is run."""
    try:
        with open(os.path.join(TOP, scene), encoding="utf-8") as file:
            return scenes.parse(scene, file.read()).hosts
    except (OSError, scenes.SceneError):
        return 1


def read_line(line, where):
    """The steps of one line of the plan: LEVEL SECONDS RING NAME: COMMAND, or ... RING SCENE MACHINES..."""
    words = line.split()
    if len(words) < 5 or words[0] not in PLAN_LEVELS or not words[1].isdigit():
        raise PlanError(f"{where}: cannot understand '{line}'")
    terms = {"levels": PLAN_LEVELS[words[0]], "budget": int(words[1])}
    ring, name, *rest = words[2:]
    if ring in RINGS and name.endswith(":"):
        return [Step(ring, name[:-1], ["bash", "-c", line.split(":", 1)[1].strip()], **terms)]
    if ring in SCENE_RINGS:
        return [scene_step(ring, name, machines, f"{where.rpartition(':')[2]}-{index}", **terms)
                for index, machines in enumerate(rest, 1)]
    raise PlanError(f"{where}: cannot understand '{line}'")


def read_plan(path):
    """The steps of the plan, in its order."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].strip() for line in file]
    return [step for number, line in enumerate(lines, 1) if line
            for step in read_line(line, f"{path}:{number}")]


def choose(steps, level, patterns):
    """The steps to run: those of the level, or those whose title contains a pattern; preparation always runs."""
    if not patterns:
        return [step for step in steps if level in step.levels]
    return [step for step in steps if (level if level in APART else "all") in step.levels
            if step.ring == "prepare" or any(fnmatch.fnmatchcase(step.title, f"*{word}*")
                                             for word in patterns)]
