#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures whether the tests notice errors in core: changes one token or one statement of a core file at a time,
runs the unit tests and some seeds of the simulator, and reports each change that no test noticed.

    scripts/mutate.py --count 40                      number of random changes
    scripts/mutate.py --only net/rds/send.cc          of one file or folder; may be repeated
    scripts/mutate.py --kind wake                     of one kind: see KINDS
    scripts/mutate.py --given FILE                    the changes that FILE lists, in the form of selftests/mutants

`make mutate` first builds the objects for this. A change is not judged, and another one is drawn, when it does not compile, when
the object code is as before, or when selftests/mutants lists it as one that changes nothing. Exit code 1: some survived.
"""

import argparse
import dataclasses
import random
import re
import signal
import sys
import time
from pathlib import Path

from mutate_judge import CORE, TOP, Judge

LISTED = TOP / "selftests/mutants"
PROGRESS = 20              # mutants between two lines about the score

# Replacements. Operators are between spaces, so that templates and references do not match.
SWAPS = [("compare", r"(?<= )(<|<=|>|>=|==|!=)(?= )",
          {"<": ["<=", ">="], "<=": ["<"], ">": [">=", "<="], ">=": [">"], "==": ["!="], "!=": ["=="]}),
         ("logic", r"(?<= )(&&|\|\|)(?= )|(?<=\n)(&&|\|\|)", {"&&": ["||"], "||": ["&&"]}),
         ("logic", r"\b(true|false)\b", {"true": ["false"], "false": ["true"]}),
         ("count", r"(?<= )(\+|-|\+=|-=)(?= )", {"+": ["-"], "-": ["+"], "+=": ["-="], "-=": ["+="]}),
         ("count", r"\b(min|max)(?=\()", {"min": ["max"], "max": ["min"]}),
         ("count", r"(\+\+|--)", {"++": ["--"], "--": ["++"]})]
NUMBER = re.compile(r"(?<![\w.'])\d[\d']*(?![\w.'])")
# Times, of which a test notices no nanosecond and no millisecond, are halved and doubled instead: large numbers, multiples of a
# unit, and what a variable named after a unit begins with or is compared with.
LARGE = 1_000_000
UNIT = r"(?:ns|us|ms)\b"
OF_UNIT = re.compile(rf" \* {UNIT}")
IN_UNIT = re.compile(rf"_{UNIT}(?: [-+<>=!]?=? |{{)$")
# Nor does it notice whether a comparison of times includes the moment itself.
BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
TIME_BEFORE = re.compile(r"_(?:ns|us|ms)_?\)* $")
TIME_BEHIND = re.compile(r" [\w.>(-]*?_(?:ns|us|ms)_?\b")
CONDITION = re.compile(r"\b(?:if|while) \(")
RETURN = re.compile(r"\breturn (?=[^;{}]+;)")
STATEMENT = re.compile(r"(?<=[;{}):])\s*\n\s+(?=[A-Za-z_*(+:-])")
# Not dropped: declarations, assertions and annotations for lock analysis.
NO_STATEMENT = re.compile(r"(Guard|return|using|static_assert|constexpr|const|auto|struct|class|case|default|public|private)\b")
# Nothing in it is changed, nor what is done where it does not hold: a test that got there would have failed.
ASSERTION = re.compile(r"(if \(!|static_cast<void>\(|[\w.]+ \|= !)?\bHW_ASSERT\(")
WAKE = re.compile(r"wake|notify|queue|resume|signal|_work|again|later")
KINDS = ("compare", "logic", "count", "condition", "return", "statement", "wake")


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: Path      # of the source file, absolute
    begin: int      # the replaced range: source[begin:end]
    end: int
    new: str
    kind: str

    def apply(self, source: str) -> str:
        return source[:self.begin] + self.new + source[self.end:]

    def shown(self, source: str) -> tuple[str, str]:
        """The lines before and after, each joined to one."""
        first = source.rfind("\n", 0, self.begin) + 1
        last = source.find("\n", self.end)
        return (one_line(source[first:last]),
                one_line(source[first:self.begin] + self.new + source[self.end:last]))

    def where(self, source: str) -> str:
        return f"{self.path.relative_to(TOP)}:{source.count(chr(10), 0, self.begin) + 1}"


def one_line(text: str) -> str:
    return " ".join(text.split())


def blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def code_only(source: str) -> str:
    """The source with comments, strings and preprocessor lines replaced by spaces, so that offsets stay."""
    source = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', blank, source, flags=re.S)
    return re.sub(r"^[ \t]*#[^\n]*|^[ \t]*static_assert\([^;]*;", blank, source, flags=re.M)


def closing(code: str, opening: int) -> int:
    """The offset after the parenthesis that closes the one at this offset."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at + 1
    return len(code)


def statement_end(code: str, begin: int) -> int | None:
    """The offset after the semicolon of a statement without a block; None for anything else."""
    depth = 0
    for at in range(begin, len(code)):
        if code[at] in "{}":
            return None
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if code[at] == ";" and depth == 0:
            return at + 1
    return None


def without_assertions(code: str) -> str:
    for match in reversed(list(ASSERTION.finditer(code))):
        end = closing(code, match.end() - 1)
        if match[1] and match[1].startswith("if"):
            end = code.index(")", end) + 1
            end = statement_end(code, end) or code.index("}", end) + 1
        code = code[:match.start()] + re.sub(r"[^\n]", " ", code[match.start():end]) + code[end:]
    return code


def is_time(code: str, begin: int, end: int, value: int) -> bool:
    line = code.rfind("\n", 0, begin) + 1
    return value >= LARGE or bool(OF_UNIT.match(code, end) or IN_UNIT.search(code, line, begin))


def compares_times(code: str, begin: int, end: int) -> bool:
    return bool(TIME_BEFORE.search(code, code.rfind("\n", 0, begin) + 1, begin) or TIME_BEHIND.match(code, end))


def candidates(path: Path) -> list[Mutant]:
    source = path.read_text()
    code = without_assertions(code_only(source))
    found = []

    def add(begin: int, end: int, new: str, kind: str) -> None:
        found.append(Mutant(path, begin, end, new, kind))

    for kind, pattern, replacements in SWAPS:
        for match in re.finditer(pattern, code):
            for new in replacements[match[0]]:
                if not (BOUNDARY.get(match[0]) == new and compares_times(code, *match.span())):
                    add(*match.span(), new, kind)
    for match in NUMBER.finditer(code):
        value = int(match[0].replace("'", ""))
        scaled = value and is_time(code, *match.span(), value)
        add(*match.span(), str(value * 2 if scaled else value + 1), "count")
        if value:
            add(*match.span(), str(value // 2 if scaled else value - 1), "count")
    for match in CONDITION.finditer(code):
        end = closing(code, match.end() - 1) - 1
        condition = source[match.end():end]
        if ";" not in condition:        # else it is a declaration
            add(match.end(), end, f"!({condition})", "condition")
            add(match.end(), end, f"false && ({condition})", "condition")
    for match in RETURN.finditer(code):
        end = code.index(";", match.end())
        add(match.end(), end, "{}", "return")
    for match in STATEMENT.finditer(code):
        end = statement_end(code, match.end())
        text = code[match.end():end] if end else ""
        if end and not NO_STATEMENT.match(text):
            add(match.end(), end, ";", "wake" if WAKE.search(text) else "statement")
    return found


# ---- changes that a file lists

def entries(path: Path):
    """(file or folder, old text, new text) of a file in the form that the head of selftests/mutants explains."""
    for paragraph in re.split(r"\n\s*\n", path.read_text()):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        old = [line[2:] for line in lines if line.startswith("- ")]
        new = [line[1:].strip() for line in lines if line.startswith("+")]
        if lines and (len(old) != 1 or len(new) != 1 or lines[0][0] in "-+"):
            sys.exit(f"{path}: not an entry:\n{paragraph}")
        if lines:
            yield lines[0], one_line(old[0]), one_line(new[0])


def listed() -> set[tuple[str, str, str]]:
    return set(entries(LISTED))


def given(path: Path) -> list[Mutant]:
    """The listed changes as mutants. The old text is searched in the file, or in all files below the folder."""
    found = []
    for place, old, new in entries(path):
        pattern = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
        hits = [(file, match) for file in core_files(place) for match in pattern.finditer(file.read_text())]
        if len(hits) != 1:
            print(f"not judged: {place}: {len(hits)} occurrences: {old}")
            continue
        file, match = hits[0]
        found.append(Mutant(file, *match.span(), new, "given"))
    return found


def core_files(only: str) -> list[Path]:
    files = [path for folder in CORE for path in sorted((TOP / folder).rglob("*.cc"))
             if "glue" not in path.parts and path.name != "common.cc"]  # which includes others, compiled by themselves
    chosen = [path for path in files if path == TOP / only or (TOP / only) in path.parents]
    if not chosen:
        sys.exit(f"no core file: {only}")
    return chosen


# ---- the program

def drawn(arguments) -> list[Mutant]:
    known = listed()
    found = []
    for path in sorted({path for only in arguments.only or CORE for path in core_files(only)}):
        source = path.read_text()
        for mutant in candidates(path):
            if arguments.kind in ("", mutant.kind) and (str(path.relative_to(TOP)), *mutant.shown(source)) not in known:
                found.append(mutant)
    random.Random(arguments.seed).shuffle(found)
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where to build")
    parser.add_argument("--compile", required=True, help="the command that compiles a core file, without -c and -o")
    parser.add_argument("--link", required=True)
    parser.add_argument("--unit", type=Path, nargs="+", required=True, help="objects of the unit tests")
    parser.add_argument("--sim", type=Path, nargs="+", required=True, help="objects of the simulator")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seeds", default="40", help="seeds of the simulator")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", action="append")
    parser.add_argument("--kind", default="", choices=("", *KINDS))
    parser.add_argument("--given", type=Path)
    return parser.parse_args()


def judge_all(arguments, mutants, count, verdicts) -> None:
    """Counts the verdicts of the first `count` mutants that can be judged."""
    judge = Judge(arguments)
    for mutant in mutants:
        if sum(verdicts.values()) == count:
            break
        verdict = judge.judge(mutant)
        if not verdict:
            continue
        verdicts[verdict] += 1
        source = mutant.path.read_text()
        if verdict == "survived" or arguments.given:
            old, new = mutant.shown(source)
            print(f"{verdict}: {mutant.where(source)}\n- {old}\n+ {new}", flush=True)
        if sum(verdicts.values()) % PROGRESS == 0:
            print(score(verdicts), flush=True)


def score(verdicts) -> str:
    total, survived = sum(verdicts.values()), verdicts["survived"]
    return (f"{total} mutants: {verdicts['unit']} noticed by unit tests, {verdicts['sim']} by the simulator, "
            f"{survived} survived: {100 * (total - survived) / max(total, 1):.0f} %")


def main() -> int:
    arguments = parse()
    # Also where the shell that started it in the background ignores SIGINT for it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    mutants = given(arguments.given) if arguments.given else drawn(arguments)
    count = len(mutants) if arguments.given else arguments.count
    if not arguments.given:
        print(f"SEED={arguments.seed}: {count} of {len(mutants)} candidates", flush=True)
    verdicts = {"unit": 0, "sim": 0, "survived": 0}
    try:
        judge_all(arguments, mutants, count, verdicts)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(score(verdicts))
    return 1 if verdicts["survived"] or not sum(verdicts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
