#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that the simulator finds known kinds of bugs. Each patch below plants/ puts one into a copy of core; a
campaign over the copy must fail, within a bounded number of seeds, for the expected reason of the patch."""

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PLANTS = TOP / "selftests/sim/plants"


def expected(patch: Path) -> str:
    return re.search(r"^Expect: (.+)$", patch.read_text(), re.M).group(1)


def suite(patch: Path) -> str:
    text = patch.read_text()
    return "kcm" if "+++ b/net/kcm/" in text else "rtrs" if "+++ b/drivers/infiniband/ulp/rtrs/" in text else "rds"


def build(patch: Path, arguments) -> Path:
    """The simulator with one bug: core files that the patch changes, and all other objects as built before."""
    place = arguments.out / "plants" / patch.stem
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("net", "drivers"):
        shutil.copytree(TOP / folder, place / folder)
    subprocess.run(["patch", "-s", "-p1", "--fuzz=0", "-i", patch], cwd=place, check=True)
    changed = re.findall(r"^\+\+\+ b/(\S+\.cc)", patch.read_text(), re.M)
    objects = {str(path): path for path in arguments.objects}
    for name in changed:
        planted = place / (Path(name).stem + ".o")
        flags = [flag.replace(f"-I{TOP}/net/rds", f"-I{place}/net/rds") for flag in arguments.compile.split()]
        subprocess.run([*flags, "-c", place / name, "-o", planted], check=True)
        old = [path for path in objects if path.endswith("/" + name.removesuffix(".cc") + ".o")]
        assert len(old) == 1, f"{name} is built once"
        objects[old[0]] = planted
    program = place / "sim"
    subprocess.run([*arguments.link.split(), *objects.values(), "-o", program], check=True)
    return program


def bite(patch: Path, arguments) -> tuple[bool, str]:
    program = build(patch, arguments)
    run = subprocess.run([program, "--suite", suite(patch), "--first", str(arguments.first), "--seeds",
                          str(arguments.seeds), "--jobs", "1", "--most-failures", "1"],
                         capture_output=True, text=True, errors="replace")
    found = re.search(r"^FAILED: seed (\d+)", run.stdout, re.M)
    if not found:
        return False, f"not found in {arguments.seeds} seeds"
    reason = re.search(expected(patch), run.stderr)
    if not reason:
        shown = "\n".join(run.stderr.splitlines()[-12:])
        return False, f"seed {found.group(1)} failed for another reason than /{expected(patch)}/:\n{shown}"
    return True, f"seed {found.group(1)}: {reason.group(0)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where to build")
    parser.add_argument("--compile", required=True, help="the command that compiles a core file, without -c and -o")
    parser.add_argument("--link", required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3000)
    parser.add_argument("--only", default="")
    parser.add_argument("objects", type=Path, nargs="+", help="of the simulator without a bug")
    arguments = parser.parse_args()
    patches = [patch for patch in sorted(PLANTS.glob("*.patch")) if arguments.only in patch.stem]
    print(f"1..{len(patches)}")
    failed = not patches
    for number, patch in enumerate(patches, 1):
        began = time.monotonic()
        good, text = bite(patch, arguments)
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {number} {patch.stem}")
        print("\n".join(f"# {line}" for line in text.splitlines()), f"({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
