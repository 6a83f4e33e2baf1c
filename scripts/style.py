#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks rules that no compiler checks: licence lines, width, headings, places of C and kernel headers, leftovers; and that
the patches in selftests/sim/plants and the entries of selftests/mutants fit the present core.

Prints each offence as FILE:LINE: TEXT, one result for each rule, and the count.
"""

import os
import re
import subprocess
import sys

import mutate

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
COLUMNS = 130
MOST_LINES = 400
# Those with more, which must not grow. A C++ test module with shared inline functions does not link (COMDAT sections), so
# that the streams of kapi's stay together. The others are one class, or one table of cases.
LONG = {"selftests/kapi/streams.cc": 485, "selftests/rtrs/hostile/server.c": 404, "selftests/unit/rtrs_wire_server.h": 409}
LANGUAGES = (".c", ".h", ".cc", ".py", ".sh", ".md", ".rst", ".mk", ".awk")
UNLICENSED = ("COPYING", "copyright", "changelog", "format")    # the licence itself, and formats of Debian without comments
DATA = ("selftests/fuzz/corpus/",)  # bytes, not text
# The only places of C and of kernel headers.
C_PLACES = re.compile(r"(^|/)glue/|^kapi/linux/|^selftests/|^tools/|^scripts/|^include/uapi/")
KERNEL_PLACES = re.compile(rf"{C_PLACES.pattern}|^include/(kapi/(linux|types)|rtrs(-srv)?)\.h$")
KERNEL_HEADER = re.compile(r'^\s*#\s*include\s*[<"](linux|net|asm|asm-generic|uapi(?!/hawser_)|rdma|crypto|trace)/')
KERNEL_VERSION = re.compile(r"\b(LINUX_VERSION_CODE|KERNEL_VERSION)\b")
# A cast to a pointer to function: written out, or by a name that is a function type's by our naming (_fn, callback).
FUNCTION_CAST = re.compile(r"(?:\(|_cast<)\s*(?:\w+[\s*]+)+\(\s*\*\s*(?:const\s*)?\)\s*\([^()]*\)\s*(?:\)\s*[\w&(*]|>)")
TYPEDEF_CAST = re.compile(r"(?:\(|_cast<)\s*\w*(?:_fn|_func|_function|callback|actor)(?:_t)?\s*(?:\)\s*[\w&(]|>)")
SHARED_QUEUE = re.compile(r"\b(system_\w*wq|schedule_(delayed_)?work(_on)?)\b")
# Written in pieces, so that this file does not offend.
LEFTOVERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MERGE_MARK = re.compile(r"(<{7}|>{7}|\|{7})( |$)|={7}$")
# A comment names the task, program, peer or user that it means.
PRONOUNS = re.compile(r"\b(somebody|anybody|everybody|whoever)\b", re.I)
PRONOUN_FREE = ("net/", "drivers/", "kapi/", "include/")
RULE = re.compile(r"([=~^\"'`#*+.:_-])\1{2,}$")     # under a heading, or over it
# Those of `make run` and those that must fail are run by others; two need a kernel with fault injection (make check-debug).
SCENE = re.compile(r"selftests/(kapi|kcm|rds|rtrs)/(?!fails_|story)\w+\.sh$")
UNPLANNED = ("selftests/rds/poor.sh", "selftests/rds/starve.sh")
PRIVATE_PATHS = re.compile(r"(?<![\w.])/(wor" r"k|hom" r"e|roo" r"t)/\w")


def all_files():
    """Paths of the repository's files, and of those that are not committed yet."""
    try:
        command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
        paths = subprocess.run(command, cwd=TOP, check=True, capture_output=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):    # an unpacked archive
        paths = [os.path.relpath(f"{folder}/{name}", TOP)
                 for folder, _, names in os.walk(TOP) for name in names]
    return sorted({path for path in paths if path and not path.startswith(("build/", ".git/", *DATA))
                   and os.path.isfile(f"{TOP}/{path}") and not os.path.islink(f"{TOP}/{path}")})


def is_source(path):
    name = os.path.basename(path)
    return name.endswith(LANGUAGES) or name.startswith(("Makefile", "Kbuild")) or "." not in name


def licence(path, lines):
    """an SPDX line within the first three"""
    if os.path.basename(path) in UNLICENSED or not lines:
        return
    if not any("SPDX-License-Identifier: GPL-2.0" in line for line in lines[:3]):
        yield 1, "no SPDX line"


def width(path, lines):
    """no line beyond 130 columns"""
    if is_source(path) and os.path.basename(path) not in UNLICENSED:
        for number, line in enumerate(lines, 1):
            if len(line.expandtabs(8)) > COLUMNS:
                yield number, f"{len(line.expandtabs(8))} columns"


def length(path, lines):
    """no source beyond 400 lines"""
    if path.endswith((".c", ".h", ".cc", ".py", ".sh")) and len(lines) > LONG.get(path, MOST_LINES):
        yield len(lines), f"{len(lines)} lines"


def blanks(path, lines):
    """no blanks at the end of a line, no tabs in the indentation of C++ and Python"""
    if not is_source(path):
        return
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "blanks at the end"
        if path.endswith((".cc", ".py")) and line.startswith("\t"):
            yield number, "indented with a tab"


def headings(path, lines):
    """each heading of a page has an underline as long as itself, and nothing else has one"""
    if not path.endswith(".rst"):
        return
    around = ["", *lines, "", ""]
    for number, line in enumerate(lines, 1):
        before, above, after = around[max(number - 2, 0)], around[number - 1], around[number + 2]
        if not RULE.match(line) or (above == "" and after == line):     # an overline
            continue
        if not above or above != above.strip() or before not in ("", line):
            yield number, "an underline without a heading"
        elif len(line) < len(above):
            yield number, f"shorter than the heading: {above}"


def merge_marks(path, lines):
    """no mark of a merge that was not finished"""
    for number, line in enumerate(lines, 1):
        if MERGE_MARK.match(line) and not (path.endswith(".rst") and line == "=" * 7):
            yield number, line


def c_places(path, _):
    """C only in glue, kapi/linux, selftests, tools and scripts"""
    if path.endswith(".c") and not C_PLACES.search(path):
        yield 1, "C outside of its places"


def kernel_headers(path, lines):
    """no kernel header and no kernel version in core"""
    if not path.endswith((".h", ".cc", ".c")) or KERNEL_PLACES.search(path):
        return
    for number, line in enumerate(lines, 1):
        if KERNEL_HEADER.search(line):
            yield number, f"kernel header: {line.strip()}"
        if KERNEL_VERSION.search(line):
            yield number, "depends on the kernel's version"


def function_casts(path, lines):
    """no cast of a function pointer"""
    if not path.endswith((".c", ".h", ".cc")):
        return
    for number, line in enumerate(lines, 1):
        if match := FUNCTION_CAST.search(line) or TYPEDEF_CAST.search(line):
            yield number, f"kernel CFI stops a call through another type: {match[0].strip()}"


def shared_queues(path, lines):
    """no work on the kernel's own queues, where work that waits for a program delays all others"""
    if path.endswith(".c") and not path.startswith("selftests/"):
        for number, line in enumerate(lines, 1):
            if match := SHARED_QUEUE.search(line):
                yield number, match[0]


def interrupts_off(path, lines):
    """where irqs_disabled() is called, PREEMPT_RT is considered: there it says nothing of a lock taken with interrupts off"""
    if path.endswith(".c") and not path.startswith("selftests/"):
        for number, line in enumerate(lines, 1):
            if "irqs_disabled()" in line and "CONFIG_PREEMPT_RT" not in line:
                yield number, line.strip()


def lost_files(path, lines):
    """no file is given back by way of its socket, which may have lost it to SMC (setsockopt TCP_ULP)"""
    if path.startswith(("kapi/", "net/", "drivers/")):
        for number, line in enumerate(lines, 1):
            if match := re.search(r"\bsockfd_put\(\w|sock->file\b(?!->f_flags)", line):
                yield number, match[0]


def bare_waits(path, lines):
    """no scene waits for a background job without its exit status, with which it may have done nothing"""
    if path.startswith("selftests/") and path.endswith(".sh"):
        for number, line in enumerate(lines, 1):
            if line.strip() == "wait":
                yield number, "wait for the job's number"


def planned(path, lines):
    """each scene of a part of the suite is in selftests/plan"""
    if SCENE.match(path) and any(line.startswith("# lab:") for line in lines) and path not in UNPLANNED:
        with open(f"{TOP}/selftests/plan", encoding="utf-8") as plan:
            if not re.search(rf"^\w+ +\d+ +\w+ {re.escape(path)} ", plan.read(), re.MULTILINE):
                yield 1, "not in selftests/plan"


def leftovers(path, lines):
    """no note about work that is left"""
    if path.endswith("test_ktap.py"):
        return      # TAP has a directive of that name
    for number, line in enumerate(lines, 1):
        if match := LEFTOVERS.search(line):
            yield number, match[0]


def pronouns(path, lines):
    """nobody without a name in core and kapi"""
    if path.startswith(PRONOUN_FREE):
        for number, line in enumerate(lines, 1):
            if match := PRONOUNS.search(line):
                yield number, match[0]


def private_paths(_, lines):
    """no path of a private machine"""
    for number, line in enumerate(lines, 1):
        if match := PRIVATE_PATHS.search(line):
            yield number, match[0]


def plants(path, _):
    """each bug that the simulator is to find can be planted into the present core, exactly where it belongs"""
    if not path.startswith("selftests/sim/plants/"):
        return
    command = ["patch", "-p1", "--dry-run", "--force", "--fuzz=0", "--reject-file=-", "-i", f"{TOP}/{path}"]
    run = subprocess.run(command, cwd=TOP, capture_output=True, text=True, errors="replace")
    if run.returncode:
        yield 1, "; ".join(line for line in run.stdout.splitlines() if "FAILED" in line or "can't" in line) or run.stdout.strip()


def mutants(path, lines):
    """each change of core that is not judged is one that can be made in the present core"""
    if path != "selftests/mutants":
        return
    possible = {}
    for place, old, new in mutate.entries(mutate.LISTED):
        core = mutate.TOP / place
        if place not in possible:
            source = core.read_text() if core.is_file() else ""
            possible[place] = {mutant.shown(source) for mutant in mutate.candidates(core)} if source else set()
        if (old, new) not in possible[place]:
            yield [mutate.one_line(line) for line in lines].index(f"- {old}") + 1, f"{place}: {old}"


def examples(path, lines):
    """the program of a manual page is one that is compiled"""
    for start, line in enumerate(lines):
        if not line.startswith('.\\" Program: '):
            continue
        end = lines.index(".fi", start)
        shown = [text.removeprefix("\\&").replace("\\-", "-").replace("\\e", "\\") for text in lines[start + 2:end]]
        with open(f"{TOP}/{line.split()[-1]}", encoding="utf-8") as file:
            if shown != file.read().splitlines()[1:]:   # without the licence
                yield start + 1, f"not {line.split()[-1]}"


def main():
    rules = (licence, width, length, blanks, headings, merge_marks, c_places, kernel_headers, function_casts, shared_queues,
             interrupts_off, lost_files, bare_waits, planned, leftovers, pronouns, private_paths, plants, mutants, examples)
    files = {}
    for path in all_files():
        with open(f"{TOP}/{path}", encoding="utf-8", errors="replace") as file:
            files[path] = file.read().split("\n")
            if files[path][-1] == "":
                files[path].pop()
    failed = 0
    for number, rule in enumerate(rules, 1):
        offences = [f"{path}:{line}: {text}"
                    for path, lines in files.items() for line, text in rule(path, lines)]
        for offence in offences:
            print(f"# {offence}")
        print(f"{'not ok' if offences else 'ok'} {number} {rule.__doc__}")
        failed += bool(offences)
    print(f"1..{len(rules)}")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
