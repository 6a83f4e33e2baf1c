# SPDX-License-Identifier: GPL-2.0
"""Boots a machine for a benchmark and reads what it printed."""

import os
import shutil
import subprocess

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = f"{TOP}/build/bench"
# Without ERMS and FSRM, or a copied byte would count as an instruction.
PROCESSOR = "-cpu max,-erms,-fsrm"


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
