# SPDX-License-Identifier: GPL-2.0
"""The outcome of a scene: results, faults and the reasons of a failure."""

import fnmatch
import os
import re
from dataclasses import dataclass, field

from . import kernlog, ktap
from .kernel import SUITE_MODULES

CONTEXT = 60            # lines of kernel log shown from the first complaint on
SKIP_EXIT = 4           # kselftest's exit code of a script that cannot run here


@dataclass
class Evidence:
    """Everything that one machine reported about one scene."""

    parser: ktap.Parser = field(default_factory=ktap.Parser)
    output: list = field(default_factory=list)      # lines of stdout and stderr
    error_rest: bytes = b""                         # an incomplete line of stderr
    kernel: list = field(default_factory=list)      # lines of the kernel log
    first_complaint: int = -1                       # its index in `kernel`
    leaks: str = ""
    report: dict = None                             # exit, taint, modules; None until the scene has ended

    def output_bytes(self, stream, data):
        """Adds what the scene printed on stdout (1) or stderr (2); returns the lines that are complete."""
        if stream == 1:
            lines = self.parser.feed(data)
        else:
            parts = (self.error_rest + data).split(b"\n")
            self.error_rest = parts.pop()
            lines = [part.decode("utf-8", "replace") for part in parts]
        self.output += lines
        return lines

    def end_output(self):
        """Closes the streams; an incomplete line becomes a line."""
        self.output += self.parser.end()
        if self.error_rest:
            self.output += [self.error_rest.decode("utf-8", "replace")]
            self.error_rest = b""

    @property
    def kernel_is_well(self):
        """True if the machine ended its scene and its kernel is sound, so that it may run another."""
        return (self.report is not None and self.first_complaint < 0 and not self.leaks
                and not kernlog.decode_taint(self.report["taint"]))

    def kernel_record(self, record):
        seconds, text = kernlog.parse_record(record)
        if kernlog.complains(text) and self.first_complaint < 0:
            self.first_complaint = len(self.kernel)
        self.kernel.append(f"[{seconds:12.6f}] {text}")


@dataclass
class SceneResult:
    scene: str
    hosts: dict                                     # name -> "6.1:ours"
    results: list = field(default_factory=list)     # (host, ktap.Result)
    failures: list = field(default_factory=list)    # (host or "", reason, lines to show)
    seconds: float = 0.0
    logs: str = ""
    files: list = field(default_factory=list)       # copied to the host by put
    expect: list = field(default_factory=list)      # the lab's own tests: reasons for which it must fail

    def fail(self, host, reason, lines=()):
        self.failures.append((host, reason, list(lines)))

    @property
    def passed_count(self):
        """Tests that passed; the scene itself is one."""
        return sum(result.outcome != "not ok" for _, result in self.results) + (not self.failures)

    @property
    def failed_count(self):
        return sum(result.outcome == "not ok" for _, result in self.results) + bool(self.failures)

    def as_dict(self):
        """For --json."""
        return {
            "scene": self.scene, "hosts": self.hosts, "seconds": round(self.seconds, 2),
            "passed": self.passed_count, "failed": self.failed_count, "logs": self.logs, "files": self.files,
            "failures": [{"host": host, "reason": reason} for host, reason, _ in self.failures],
            "results": [{"host": host, **vars(result)} for host, result in self.results],
        }


class Skips:
    """The committed list of skips, selftests/skips: lines "SCENE: TEST # REASON", with shell wildcards."""

    def __init__(self, path):
        self._entries = []
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            for line in file:
                match = re.match(r"([^#:\s][^:]*):\s*(.*?)\s+#\s*(\S.*)", line)
                if match:
                    self._entries.append((match[1].strip(), match[2]))

    def allows(self, scene, test):
        return any(fnmatch.fnmatchcase(scene, a) and fnmatch.fnmatchcase(test, b) for a, b in self._entries)


def judge(result, host, suite, evidence, build_ids, skips):
    """Adds to `result` all faults in the evidence of `host`. `build_ids` is {suite: {module: id}}."""
    evidence.end_output()
    for test in evidence.parser.results:
        if test.outcome == "skip" and not skips.allows(result.scene, test.name):
            test = ktap.Result(test.name, "not ok", f"skipped, and not in selftests/skips: {test.reason}")
        result.results.append((host, test))
        if test.outcome == "not ok":
            result.fail(host, f"not ok: {test.name}" + (f" ({test.reason})" if test.reason else ""), test.notes)
    for error in evidence.parser.errors:
        result.fail(host, error, evidence.output[-20:])
    if evidence.first_complaint >= 0:
        first = evidence.first_complaint
        text = evidence.kernel[first].split("] ", 1)[1]
        result.fail(host, f"kernel log: {text}", evidence.kernel[first:first + CONTEXT])
    if evidence.leaks:
        result.fail(host, "kmemleak: unreferenced memory", evidence.leaks.splitlines()[:CONTEXT])
    if evidence.report is None:
        return
    _judge_report(result, host, suite, evidence, build_ids, skips)


def _judge_report(result, host, suite, evidence, build_ids, skips):
    code = evidence.report["exit"]
    if code == SKIP_EXIT and skips.allows(result.scene, "scene"):
        result.results.append((host, ktap.Result("scene", "skip", "exit code 4")))
    elif code:
        result.fail(host, f"the scene ended with exit code {code}", evidence.output[-30:])
    wrong = kernlog.decode_taint(evidence.report["taint"])
    if wrong:
        result.fail(host, f"kernel tainted: {', '.join(wrong)}", evidence.kernel[-CONTEXT:])
    for name, ident in evidence.report["modules"].items():
        known = {other: ids.get(name) for other, ids in build_ids.items()}
        if (name in SUITE_MODULES or any(known.values())) and known.get(suite) != ident:
            result.fail(host, f"wrong module: {name} with build-id {ident} is not that of suite {suite}")


def parse_report(payload):
    """The agent's report as a dictionary."""
    report = {"exit": None, "taint": None, "modules": {}}
    for line in payload.decode().splitlines():
        words = line.split()
        if words[0] == "module":
            report["modules"][words[1]] = words[2]
        else:
            report[words[0]] = int(words[1])
    return report
