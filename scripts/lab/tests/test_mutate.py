# SPDX-License-Identifier: GPL-2.0
"""mutate.py: what becomes of the numbers of a source."""

import tempfile
import unittest
from pathlib import Path

import mutate


class Numbers(unittest.TestCase):
    def changed(self, line):
        """What the numbers of the line become."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "core.cc"
            path.write_text(f"// 7\n{line}\n")
            return [(mutant.apply(path.read_text()).splitlines()[1]) for mutant in mutate.candidates(path)
                    if mutant.new.isdigit()]

    def test_a_count_changes_by_one(self):
        self.assertEqual(self.changed("constexpr u32 most = 60;"), ["constexpr u32 most = 61;", "constexpr u32 most = 59;"])
        self.assertEqual(self.changed("x = a[0];"), ["x = a[1];"])

    def test_a_multiple_of_a_unit_is_doubled_and_halved(self):
        self.assertEqual(self.changed("constexpr u64 wanted = 60'000 * ms;"),
                         ["constexpr u64 wanted = 120000 * ms;", "constexpr u64 wanted = 30000 * ms;"])
        self.assertEqual(self.changed("f(4 * msgs);"), ["f(5 * msgs);", "f(3 * msgs);"])

    def test_so_is_what_a_variable_named_after_a_unit_begins_with(self):
        self.assertEqual(self.changed("constexpr u64 first_delay_ms = 250, count = 3;"),
                         ["constexpr u64 first_delay_ms = 500, count = 3;", "constexpr u64 first_delay_ms = 125, count = 3;",
                          "constexpr u64 first_delay_ms = 250, count = 4;", "constexpr u64 first_delay_ms = 250, count = 2;"])
        self.assertEqual(self.changed("Atomic<u32> tick_us{40};"), ["Atomic<u32> tick_us{80};", "Atomic<u32> tick_us{20};"])
        self.assertEqual(self.changed("x = age_ns > 500;"), ["x = age_ns > 1000;", "x = age_ns > 250;"])

    def test_a_large_number_is_a_time(self):
        self.assertEqual(self.changed("wait(3'000'000);"), ["wait(6000000);", "wait(1500000);"])

    def test_no_time_becomes_the_shortest(self):
        self.assertEqual(self.changed("u64 begun_ns = 0;"), ["u64 begun_ns = 1;"])


if __name__ == "__main__":
    unittest.main()
