# SPDX-License-Identifier: GPL-2.0
"""Boots a machine for a benchmark and reads what it printed."""

import os
import shutil
import subprocess
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = f"{TOP}/build/bench"
# Without ERMS and FSRM, or a copied byte would count as an instruction.
PROCESSOR = "-cpu max,-erms,-fsrm"
# Other work on this machine's processors, in percent, above which a time is worth little; and how long to wait for its end.
BUSY, PATIENCE_SECONDS = 5, 60


def wait_until_quiet():
    """Waits until this machine does nothing else; returns a remark for the report, empty when it became quiet.

    Times are compared by their ratio to TCP's in the same round, but a busy host still decides which of two processes waits.
    """
    def ticks():
        with open("/proc/stat", encoding="ascii") as file:
            values = [int(word) for word in file.readline().split()[1:9]]
        return sum(values), values[3] + values[4]

    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        all_before, idle_before = ticks()
        time.sleep(2)
        all_now, idle_now = ticks()
        busy = 100 - 100 * (idle_now - idle_before) / (all_now - all_before)
        if busy <= BUSY:
            return ""
        if time.monotonic() > until:
            return f"The machine was not quiet: {busy:.0f} % of its processors' time went to other work."


def run(script, name, kernel, suite, quiet=False):
    """Runs selftests/bench/script; returns the lines that the benchmark printed, as lists of words.

    quiet: what the lab prints is only shown when the scene fails.
    """
    folder = f"{BUILD}/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    done = subprocess.run([f"{TOP}/scripts/lab/lab", "run", "--default-host", f"{kernel}:{suite}", "--out", folder,
                           "--qemu", PROCESSOR, f"{TOP}/selftests/bench/{script}"], check=not quiet,
                          stdout=subprocess.PIPE if quiet else None, text=True)
    if done.returncode:
        raise SystemExit(done.stdout)
    with open(f"{folder}/a.results", encoding="ascii") as file:
        return [line.split() for line in file]
