# SPDX-License-Identifier: GPL-2.0
"""Reads the test results (KTAP, TAP) in a scene's output.

A scene may run several programs one after another, each with its own plan, and programs print other lines,
too. A parent test that sums up its subtests is not counted a second time.
"""

import re
from dataclasses import dataclass, field

RESULT = re.compile(r"^(\s*)(not ok|ok)\b(?:\s+(\d+))?(?:\s+-)?\s*(.*)$")
PLAN = re.compile(r"^(\s*)1\.\.(\d+)\s*(?:#.*)?$")
SKIP = re.compile(r"#\s*skip\b:?\s*(.*)", re.IGNORECASE)
COMMENT = re.compile(r"^\s*#\s*(.*)$")
NOTES = 20      # lines of comment that are kept with a test that failed
BAIL = re.compile(r"^\s*Bail out!\s*(.*)", re.IGNORECASE)


@dataclass
class Result:
    name: str
    outcome: str    # "ok", "not ok" or "skip"
    reason: str = ""
    notes: list = field(default_factory=list)   # of a test that failed: the comments behind it


class Parser:
    """Feed it bytes of stdout; `results` and `errors` grow. Call end() after the last byte."""

    def __init__(self):
        self.results = []
        self.errors = []
        self._partial = b""
        self._last_indent = 0
        self._plans = {}        # indent -> [planned, seen]
        self._unplanned = {}    # indent -> results seen without a plan, which may come last

    def feed(self, data):
        """Adds output; returns the lines that it completed."""
        lines = (self._partial + data).split(b"\n")
        self._partial = lines.pop()
        lines = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
        for line in lines:
            self._line(line)
        return lines

    def end(self):
        """Makes the final checks; returns the last line if it had no newline."""
        rest = []
        if self._partial:
            rest = self.feed(b"\n")
        for indent in sorted(self._plans, reverse=True):
            self._close_plan(indent)
        return rest

    @property
    def failed(self):
        return any(result.outcome == "not ok" for result in self.results) or bool(self.errors)

    def _line(self, line):
        if match := RESULT.match(line):
            self._result(len(match[1].expandtabs(8)), match[2], match[3], match[4])
        elif match := PLAN.match(line):
            indent = len(match[1].expandtabs(8))
            self._close_plan(indent)
            if self._unplanned.pop(indent, 0) != int(match[2]):
                self._plans[indent] = [int(match[2]), 0]
        elif match := BAIL.match(line):
            self.errors.append(f"bailed out: {match[1]}")
        elif match := COMMENT.match(line):
            last = self.results[-1] if self.results else None
            if last and last.outcome == "not ok" and len(last.notes) < NOTES:
                last.notes.append(match[1])

    def _result(self, indent, word, number, text):
        plan = self._plans.get(indent)
        if plan:
            plan[1] += 1
        else:
            self._unplanned[indent] = self._unplanned.get(indent, 0) + 1
        sums_up = indent < self._last_indent
        if sums_up:
            for deeper in [other for other in self._plans if other > indent]:
                self._close_plan(deeper)
            self._unplanned = {other: seen for other, seen in self._unplanned.items() if other <= indent}
        self._last_indent = indent
        skip = SKIP.search(text)
        name = text.split(" # ")[0].strip() or f"test {number or len(self.results) + 1}"
        if skip:
            name = text[:skip.start()].strip() or name
            outcome = "skip"
        else:
            outcome = word
        if sums_up and outcome == "ok":
            return
        if sums_up and self.results and self.results[-1].outcome == "not ok" and outcome == "not ok":
            return      # counted with the subtests
        self.results.append(Result(name, outcome, skip[1].strip() if skip else ""))

    def _close_plan(self, indent):
        planned, seen = self._plans.pop(indent, (0, 0))
        if planned != seen:
            self.errors.append(f"{planned} tests were planned, {seen} reported")
