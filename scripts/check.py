#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs what selftests/plan lists, ring by ring, cheapest first, and reports how many tests passed and failed.

One line for each step; a step that failed shows the end of its log, and one that exceeded its budget is marked.
Earlier failures stop nothing, except scenes whose modules or programs could not be built. The last
line is always `N passed, M failed`.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import threading
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import plan     # noqa: E402 (the path must be set first)
from lab import ktap    # noqa: E402
from lab.verdict import Skips       # noqa: E402
from plan import LEVELS, OUT, SCENE_RINGS, TOP    # noqa: E402

# The lab limits its scenes itself; this is for other steps.
STEP_SECONDS = round(1200 * max(1, float(os.environ.get("LAB_TIME_SCALE", "1"))))
POLL_SECONDS = 0.05
GRACE_SECONDS = 15      # for a stopped step to clean up, virtual machines above all
LOG_TAIL = 80           # lines shown of the log of a step that failed
LOG_WIDTH = 300         # build commands are long


# A compiler command printed by make; its messages follow on lines of their own.
COMPILATION = re.compile(r"^(?:/\S*/)?(?:clang|gcc|g)(?:\+\+)?(?:-\d+)? -\S.* -(?:c|o) ")


# --- running ---

class Runner:
    """Runs steps, several at a time where they allow it; stop() ends what runs."""

    def __init__(self):
        self._running = set()
        self._stopped = False
        self._skips = Skips(f"{TOP}/selftests/skips")

    def run(self, step):
        """Runs a step, again if it failed and has another attempt, and stores its result."""
        self._attempt(step)
        while step.failed and step.attempts > 1 and not self._stopped:
            step.attempts -= 1
            step.earlier += [f"an earlier attempt failed: {reason}" for reason in step.reasons]
            self._keep(step)
            step.passed, step.failed, step.reasons = 0, 0, []
            self._attempt(step)

    @staticmethod
    def _keep(step):
        """Keeps what the next attempt would overwrite: the output, and the logs of scenes, which explain a fault that is rare."""
        with open(step.log, encoding="utf-8", errors="replace") as file:
            folders = re.findall(r"^  logs: (.+)$", file.read(), re.MULTILINE)
        for folder in folders:
            kept = f"{folder}.{step.attempts}"
            shutil.rmtree(kept, ignore_errors=True)
            if os.path.isdir(folder):
                os.rename(folder, kept)
        os.replace(step.log, f"{step.log}.{step.attempts}")

    def _attempt(self, step):
        step.log = f"{OUT}/{re.sub(r'[^A-Za-z0-9.+-]+', '_', step.title)}.log"
        began = time.monotonic()
        with open(step.log, "wb") as log:
            code = self._execute(step, log)
        step.seconds += time.monotonic() - began
        if step.json:
            self._count_json(step)
        elif step.ring != "prepare":
            self._count_output(step)
        if code and not step.failed:
            step.failed = 1
            step.reasons.append(f"exit code {code}")
        if not code and not step.failed and not step.passed and step.ring != "prepare":
            if self._reports_counts(step):
                self._count(step, False, "no test ran")
            else:
                step.passed = 1     # a command without tests of its own is one test

    def stop(self):
        self._stopped = True
        for process in list(self._running):
            self._end(process)

    def _execute(self, step, log):
        if self._stopped:
            return 130
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        environment.pop("MAKEFLAGS", None)      # do not inherit make's job server
        environment.pop("MAKELEVEL", None)
        process = subprocess.Popen(step.command, cwd=TOP, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        self._running.add(process)
        try:
            if self._wait(process, step):
                return process.returncode
            step.reasons.append(f"did not end within {STEP_SECONDS} s")
            self._end(process)
            return process.returncode
        finally:
            self._running.discard(process)

    @staticmethod
    def _wait(process, step):
        """Waits for the end of a step and notes the processor time it took; False when time is up before."""
        deadline = time.monotonic() + STEP_SECONDS
        while time.monotonic() < deadline:
            try:
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            except ChildProcessError:   # ended by stop()
                return True
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
                step.cpu_seconds += usage.ru_utime + usage.ru_stime
                return True
            time.sleep(POLL_SECONDS)
        return False

    @staticmethod
    def _end(process):
        """Sends SIGINT, as Ctrl-C does, so that the lab stops its machines; then SIGKILL."""
        for how, patience in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, None)):
            try:
                os.killpg(process.pid, how)
                process.wait(patience)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                pass

    @staticmethod
    def _count_json(step):
        """Counts from the lab's JSON file."""
        try:
            with open(step.json, encoding="utf-8") as file:
                report = json.load(file)
        except (OSError, ValueError):
            step.failed = 1
            step.reasons.append("the lab left no result")
            return
        step.passed, step.failed = report["passed"], report["failed"]
        for scene in report["scenes"]:
            step.reasons += [f"{entry['host']}: {entry['reason']}" for entry in scene["failures"]]

    def _count_output(self, step):
        """Tests that the output reports: KTAP, GoogleTest's, Python's, or lines `N passed, M failed`."""
        parser = ktap.Parser()
        with open(step.log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        parser.feed(text.encode())
        parser.end()
        step.reasons += parser.errors
        step.failed += len(parser.errors)
        for result in parser.results:
            skipped = result.outcome == "skip" and not self._skips.allows(step.name, result.name)
            self._count(step, result.outcome != "not ok" and not skipped, result.name)
        for outcome, count in re.findall(r"^\[  (PASSED|FAILED)  \] (\d+) tests?\b", text, re.MULTILINE):
            step.passed += int(count) if outcome == "PASSED" else 0
            step.failed += int(count) if outcome == "FAILED" else 0
        step.reasons += re.findall(r"^\[  FAILED  \] (\w+\.\S+)$", text, re.MULTILINE)
        for name in set(re.findall(r"^\[  SKIPPED \] (\w+\.\S+)$", text, re.MULTILINE)):
            self._count(step, self._skips.allows(step.name, name),
                        f"{name} was skipped, and is not in selftests/skips")
        if ran := re.search(r"^Ran (\d+) tests? in ", text, re.MULTILINE):
            bad = sum(int(count) for count in re.findall(r"\b(?:failures|errors)=(\d+)", text))
            step.passed += int(ran[1]) - bad
            step.failed += bad
        for passed, failed in re.findall(r"^(\d+) passed, (\d+) failed$", text, re.MULTILINE):
            step.passed += int(passed)
            step.failed += int(failed)

    @staticmethod
    def _reports_counts(step):
        """Whether the output has a count of tests, which may be 0."""
        with open(step.log, encoding="utf-8", errors="replace") as file:
            return re.search(r"^(\d+ passed, \d+ failed$|\[  PASSED  \]|1\.\.\d|Ran \d+ tests? in )", file.read(), re.MULTILINE)

    @staticmethod
    def _count(step, good, name):
        if good:
            step.passed += 1
        else:
            step.failed += 1
            step.reasons.append(name)


# --- reporting ---

def print_result(step):
    """The progress line of a step that ended; for one that failed, why."""
    word = "not ok" if step.failed else "ok"
    counts = f"{step.passed} passed" + (f", {step.failed} failed" if step.failed else "")
    if step.ring == "prepare":
        counts = "failed" if step.failed else "done"
    late = f"   over its budget of {step.budget} s" if step.late else ""
    print(f"{word:6} {step.seconds:6.1f} s  {step.ring:8} {step.name:44} {counts}{late}", flush=True)
    for reason in step.earlier:
        print(f"    {reason}")
    if not step.failed:
        return
    for reason in step.reasons:
        print(f"    {reason}")
    if step.log and os.path.exists(step.log):
        with open(step.log, encoding="utf-8", errors="replace") as file:
            lines = [line for line in file.read().splitlines() if not COMPILATION.match(line)]
        if len(lines) > LOG_TAIL:
            print(f"    ... (the whole log: {os.path.relpath(step.log, TOP)})")
        for line in lines[-LOG_TAIL:]:
            # The prefix keeps a log line from looking like our last line.
            print(f"    | {line[:LOG_WIDTH]}")
    sys.stdout.flush()


class Places:
    """Places for virtual machines: a scene takes as many as it has machines, or all there are."""

    def __init__(self, count):
        self._count = self._free = count
        self._changed = threading.Condition()

    def take(self, wanted):
        wanted = min(wanted, self._count)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= wanted)
            self._free -= wanted
        return wanted

    def give(self, taken):
        with self._changed:
            self._free += taken
            self._changed.notify_all()


def run_scenes(runner, steps, machines):
    """Runs scenes in the order of the plan, side by side as long as they have `machines` machines together."""
    places = Places(machines)
    printing = threading.Lock()

    def work(step, taken):
        try:
            runner.run(step)
            with printing:
                print_result(step)
        finally:
            places.give(taken)

    with ThreadPoolExecutor(machines) as pool:
        try:
            for future in [pool.submit(work, step, places.take(step.machines)) for step in steps]:
                future.result()
        except KeyboardInterrupt:
            runner.stop()
            raise


def run_all(runner, steps, machines):
    """Runs the steps; scenes side by side, with `machines` virtual machines together."""
    for step in [step for step in steps if step.ring not in SCENE_RINGS]:
        runner.run(step)
        print_result(step)
    scene_steps = [step for step in steps if step.ring in SCENE_RINGS]
    broken = [step.name for step in steps if step.ring == "prepare" and step.failed]
    if broken:
        for step in scene_steps:
            step.failed = 1
            step.reasons.append(f"not run, because {', '.join(broken)} failed")
            print_result(step)
        return
    run_scenes(runner, scene_steps, machines)


def write_json(path, steps, passed, failed, seconds):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"passed": passed, "failed": failed, "seconds": round(seconds, 1),
                   "steps": [step.as_dict() for step in steps]}, file, indent=1)
        file.write("\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="only steps whose RING/NAME holds this, e.g. unit/, api, interop/*6.12")
    parser.add_argument("--level", choices=LEVELS, default="quick",
                        help="quick: the shortest run that notices when anything is broken; all: everything; newest: Debian's "
                             "newest kernel; rt: kernels with PREEMPT_RT; arm64: machines with that processor "
                             "(default %(default)s)")
    parser.add_argument("--machines", type=int, default=2 * max(2, os.cpu_count() or 1), metavar="N",
                        help="virtual machines that run at the same time, if one scene does not need more (default %(default)s)")
    parser.add_argument("--json", default=f"{OUT}/result.json", metavar="FILE",
                        help="where the results go (default build/check/result.json)")
    parser.add_argument("--list", action="store_true", help="print the steps without running them")
    return parser.parse_args()


def main():
    options = parse_arguments()
    steps = plan.choose(plan.read_plan(plan.PLAN), options.level, options.only)
    if options.list:
        for step in steps:
            print(f"{step.budget:4} s  {step.title}")
        print(f"{sum(step.budget for step in steps) / 60:.0f} minutes at most, in sequence")
        return 0
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runner = Runner()
    began = time.monotonic()
    interrupted = False
    try:
        run_all(runner, steps, options.machines)
    except KeyboardInterrupt:
        runner.stop()
        interrupted = True
        print("check.py: interrupted", flush=True)
    seconds = time.monotonic() - began
    passed = sum(step.passed for step in steps)
    failed = sum(step.failed for step in steps) + interrupted
    write_json(options.json, steps, passed, failed, seconds)
    bad = [step.title for step in steps if step.failed]
    if bad:
        print("failed:")
        for title in bad:
            print(f"  {title}")
    print(f"{seconds / 60:.1f} minutes, results in {os.path.relpath(options.json, os.getcwd())}")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except plan.PlanError as error:
        print(f"check.py: {error}\n0 passed, 1 failed")
        sys.exit(2)
