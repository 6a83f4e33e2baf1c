# SPDX-License-Identifier: GPL-2.0
"""Judges changes of core for mutate.py: compiles, links and runs the tests that can notice them, the likeliest first."""

import json
import os
import re
import resource
import select
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
# Folders with core, below which those that are named `glue` have none.
CORE = ("net", "drivers")
# The first suite whose folder holds the file: how the files of unit tests that run code of it begin, and what the simulator calls
# it. Of RDS over RDMA the simulator runs nothing, nor do the unit tests of anything else, which load no such module.
SUITES = (("net/rds/rdma", "rds_rdma_", None), ("net/rds", "rds_", "rds"), ("net/kcm", "kcm_", "kcm"),
          ("drivers/infiniband/ulp/rtrs", "rtrs_", "rtrs"))
SLOW_SECONDS = 0.1         # tests that take longer are run last: most mutants are noticed by the others, in a third of the time
BASELINE_FACTOR = 8        # limit of a mutant's processor time: a multiple of the unchanged program's
SPARE_SECONDS = 3          # and so much more for each test
MEMORY_LIMIT = 8 << 30
REMEMBERED = 12            # tests that noticed changes of the same file are run first
SEED = re.compile(r"/[1-9]\d*$")     # of a test, but the first: they are run later
RUN, FAILED = "[ RUN      ] ", "[  FAILED  ] "


def suite_of(path: Path) -> tuple[str, str | None]:
    """How its tests' files begin, and what the simulator calls it, if it runs code of it."""
    place = path.relative_to(TOP)
    return next((tests, simulated) for folder, tests, simulated in SUITES if Path(folder) in place.parents)


def processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Judge:
    def __init__(self, arguments):
        self.arguments = arguments
        self.place = arguments.out / "mutants"
        self.place.mkdir(parents=True, exist_ok=True)
        self.objects = {}       # object code of unchanged core files
        self.sim_limits = {}    # processor seconds of the simulator with each suite
        self.seconds = {}       # of each unit test, of each suite
        self.killers = {}       # of each file: tests that noticed a change of it, the latest first

    def compile(self, path: Path, source: str) -> bytes | None:
        """The object code; None when it does not compile. Always at the same path, so that equal sources give equal code."""
        copy = self.place / path.relative_to(TOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source)
        command = [*self.arguments.compile.split(), "-w", "-g0", "-O1", f"-iquote{path.parent}", "-frandom-seed=1", "-c",
                   str(copy), "-o", str(copy.with_suffix(".o"))]
        run = subprocess.run(command, capture_output=True, env={**os.environ, "CCACHE_DISABLE": "1"})
        return copy.with_suffix(".o").read_bytes() if run.returncode == 0 else None

    def original(self, path: Path) -> bytes:
        if path not in self.objects:
            self.objects[path] = self.compile(path, path.read_text())
            if self.objects[path] is None:
                sys.exit(f"{path} does not compile without a change")
        return self.objects[path]

    # ---- programs

    def fixed(self, name: str, objects: list[Path]) -> Path:
        """The objects that no mutant replaces, as one without debugging information. It is made once."""
        target = self.place / f"{name}-fixed.o"
        if not target.exists() or target.stat().st_mtime < max(path.stat().st_mtime for path in objects):
            subprocess.run(["ld", "-r", "-S", *objects, "-o", target], check=True)
        return target

    def program(self, name: str, mutated: Path | None) -> Path:
        """Links unit or sim from the existing objects, with the mutated file's object replaced."""
        objects = getattr(self.arguments, name)
        core = [path for path in objects if path.relative_to(self.arguments.out).parts[1] in CORE]
        fixed = self.fixed(name, [path for path in objects if path not in core])
        libraries = ["-lgtest_main", "-lgtest"] if name == "unit" else []
        if mutated:
            own = str(mutated.relative_to(TOP).with_suffix(".o"))
            old = [path for path in core if str(path).endswith("/" + own)]
            assert len(old) == 1, f"{own} is built once"
            core[core.index(old[0])] = self.place / own
        target = self.place / name
        subprocess.run([*self.arguments.link.split(), "-Wl,-S", *core, fixed, *libraries, "-o", target], check=True)
        return target

    # ---- unit tests

    def ask(self, unit: Path, option: str, report: Path) -> dict[str, dict]:
        """What the program reports of its tests, by their names."""
        if subprocess.run([unit, "--gtest_brief=1", option, f"--gtest_output=json:{report}"], capture_output=True,
                          preexec_fn=limit_memory).returncode:
            sys.exit("the unit tests fail without a change")
        return {f"{group['name']}.{test['name']}": test
                for group in json.loads(report.read_text())["testsuites"] for test in group["testsuite"]}

    def measure(self, unit: Path, suite: str) -> None:
        """How long each test takes without a change; as it was measured before, if nothing was built since."""
        report = self.place / f"{suite}.json"
        if not report.exists() or report.stat().st_mtime < max(path.stat().st_mtime for path in self.arguments.unit):
            tests = [name for name, test in self.ask(unit, "--gtest_list_tests", self.place / "list.json").items()
                     if Path(test["file"]).name.startswith(suite)]
            flags = self.flags(tests)
            times = {name: float(test["time"].rstrip("s"))
                     for name, test in self.ask(unit, f"--gtest_flagfile={flags}", self.place / "times.json").items()}
            report.write_text(json.dumps(times))
        self.seconds[suite] = json.loads(report.read_text())

    def flags(self, tests: list[str]) -> Path:
        """The option for these tests, in a file, for there are many."""
        flags = self.place / "flags"
        flags.write_text(f"--gtest_filter={':'.join(tests)}\n")
        return flags

    def first_failure(self, unit: Path, suite: str, tests: list[str]) -> str | None:
        """The first of these tests that fails, crashes or does not end. Limited by processor time, because machines are busy."""
        seconds = self.seconds[suite]
        process = subprocess.Popen([unit, "--gtest_fail_fast", "--gtest_color=no", f"--gtest_flagfile={self.flags(tests)}"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=limit_memory)
        current, began, partial = tests[0], 0.0, ""
        while True:
            if select.select([process.stdout], [], [], 1)[0]:
                data = os.read(process.stdout.fileno(), 1 << 16).decode(errors="replace")
                if not data:
                    break
                *lines, partial = (partial + data).split("\n")
                failed = [re.split(r",| \(", line[len(FAILED):])[0] for line in lines if line.startswith(FAILED)]
                started = [line[len(RUN):].strip() for line in lines if line.startswith(RUN)]
                if failed:      # those that follow are skipped, but reported
                    current = failed[0]
                    process.kill()
                    break
                if started:
                    current, began = started[-1], processor_seconds(process.pid)
            limit = seconds.get(current, 0) * BASELINE_FACTOR + SPARE_SECONDS
            if processor_seconds(process.pid) - began > limit:
                process.kill()
                break
        process.stdout.close()
        return current if process.wait() else None

    def unit_notices(self, unit: Path, path: Path, suite: str) -> bool:
        seconds = self.seconds[suite]
        likely = self.killers.setdefault(path, [])
        rest = [name for name in seconds if name not in likely]
        quick = [name for name in rest if seconds[name] <= SLOW_SECONDS]
        slow = [name for name in rest if seconds[name] > SLOW_SECONDS]
        first, others = [name for name in quick if not SEED.search(name)], [name for name in quick if SEED.search(name)]
        for tests in (list(likely), first, others, slow):
            failed = self.first_failure(unit, suite, tests) if tests else None
            if failed:
                if failed in likely:
                    likely.remove(failed)
                likely.insert(0, failed)
                del likely[REMEMBERED:]
                return True
        return False

    # ---- the simulator

    def sim_fails(self, program: Path, suite: str, name: str) -> bool:
        """Without a limit it is measured."""
        def limits():
            limit_memory()
            if name in self.sim_limits:
                resource.setrlimit(resource.RLIMIT_CPU, (self.sim_limits[name], self.sim_limits[name] + 1))
        command = [program, "--suite", name, "--first", "1", "--seeds", self.arguments.seeds, "--jobs", "1",
                   "--most-failures", "1"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(command, capture_output=True, preexec_fn=limits)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.sim_limits.setdefault(name, int((after.ru_utime - before.ru_utime) * BASELINE_FACTOR) + 10)
        return run.returncode != 0

    # ---- verdicts

    def begin(self, suite: str, simulated: str | None) -> None:
        self.measure(self.program("unit", None), suite)
        if simulated and self.sim_fails(self.program("sim", None), suite, simulated):
            sys.exit("sim fails without a change")

    def judge(self, mutant) -> str | None:
        """unit, sim or survived; None if it is no mutant."""
        source = mutant.path.read_text()
        original = self.original(mutant.path)
        code = self.compile(mutant.path, mutant.apply(source))
        if code is None or code == original:
            if mutant.kind == "given":
                print(f"not judged: {mutant.where(source)}: {'does not compile' if code is None else 'same code'}: "
                      f"{mutant.shown(source)[1]}", flush=True)
            return None
        suite, simulated = suite_of(mutant.path)
        if suite not in self.seconds:
            self.begin(suite, simulated)
        if self.unit_notices(self.program("unit", mutant.path), mutant.path, suite):
            return "unit"
        if simulated and self.sim_fails(self.program("sim", mutant.path), suite, simulated):
            return "sim"
        return "survived"
