# SPDX-License-Identifier: GPL-2.0
"""The lab's output: progress, results and the last line."""

import json
import re
import sys
import time


class Reporter:
    def __init__(self, out=sys.stdout):
        self._out = out
        self._began = time.monotonic()
        self.results = []

    def line(self, text):
        print(text, file=self._out, flush=True)

    def say(self, host, text):
        self.line(f"  {host}: {text}")

    def output(self, host, lines):
        for line in lines:
            self.line(f"  {host}| {line}")

    def scene_ended(self, result):
        """One line for the scene; for one that failed, why. The logs come first: who sees only an end, as of a CI's log, sees the
        reasons."""
        self.results.append(result)
        hosts = " ".join(f"{name}={spec}" for name, spec in result.hosts.items())
        word = "not ok" if result.failures else "ok"
        tests = f", {len(result.results)} tests" if result.results else ""
        self.line(f"{word} {result.scene} [{hosts}] {result.seconds:.1f} s{tests}")
        for host, reason, lines in sorted(result.failures, key=lambda failure: -len(failure[2])):
            self.line(f"  {host + ': ' if host else ''}{reason}")
            for line in lines:
                self.line(f"    | {line}")
        if result.failures:
            self.line(f"  logs: {result.logs}")

    @property
    def passed(self):
        return sum(result.passed_count for result in self.results)

    @property
    def failed(self):
        return sum(result.failed_count for result in self.results)

    def summary(self):
        self.line(f"{self.passed} passed, {self.failed} failed")

    def write_json(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"passed": self.passed, "failed": self.failed,
                       "seconds": round(time.monotonic() - self._began, 1),
                       "scenes": [result.as_dict() for result in self.results]}, file, indent=1)
            file.write("\n")


class BiteReporter(Reporter):
    """Inverts the verdict for the lab's own tests: a scene must fail for every reason that it expects."""

    def scene_ended(self, result):
        reasons = [reason for _, reason, _ in result.failures]
        missed = [pattern for pattern in result.expect
                  if not any(re.search(pattern, reason) for reason in reasons)]
        if result.expect and not missed:
            self.line(f"ok {result.scene} fails as it must: {'; '.join(reasons)}")
            result.failures = []
            result.results = []
            self.results.append(result)
            return
        for pattern in missed:
            result.fail("", f"the lab did not notice: {pattern}")
        super().scene_ended(result)
