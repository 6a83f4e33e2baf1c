# SPDX-License-Identifier: GPL-2.0
"""Reading of test results."""

import unittest

from lab import ktap


def parse(text):
    parser = ktap.Parser()
    for at in range(0, len(text), 7):   # as from a pipe, in arbitrary pieces
        parser.feed(text[at:at + 7].encode())
    parser.end()
    return parser


def outcomes(parser):
    return [(result.name, result.outcome) for result in parser.results]


class KtapTest(unittest.TestCase):
    def test_flat(self):
        parser = parse("TAP version 13\n1..3\nok 1 one\nnoise\nok 2 - two\nnot ok 3 three\n")
        self.assertEqual(outcomes(parser), [("one", "ok"), ("two", "ok"), ("three", "not ok")])
        self.assertEqual(parser.errors, [])
        self.assertTrue(parser.failed)

    def test_a_failure_keeps_the_comments_behind_it(self):
        parser = parse("# before\nok 1 one\n# of one\nnot ok 2 two\n# got 5, expected 0\n  # more\n"
                       "ok 3 three\n# of three\n1..3\n")
        self.assertEqual([result.notes for result in parser.results], [[], ["got 5, expected 0", "more"], []])
        self.assertEqual(len(parse("not ok 1 one\n" + "# line\n" * 100 + "1..1\n").results[0].notes), ktap.NOTES)

    def test_skip_has_its_reason(self):
        parser = parse("1..1\nok 1 fast path # SKIP no hardware\n")
        self.assertEqual(outcomes(parser), [("fast path", "skip")])
        self.assertEqual(parser.results[0].reason, "no hardware")

    def test_a_failure_that_calls_itself_todo_is_a_failure(self):
        self.assertTrue(parse("1..1\nnot ok 1 later # " + "todo".upper() + "\n").failed)

    def test_plan_not_kept(self):
        self.assertEqual(parse("1..3\nok 1 one\n").errors, ["3 tests were planned, 1 reported"])
        self.assertEqual(parse("1..1\nok 1 one\nok 2 two\n").errors, ["1 tests were planned, 2 reported"])

    def test_several_programs_each_with_a_plan(self):
        parser = parse("1..2\nok 1 a\nok 2 b\nTAP version 13\n1..1\nok 1 c\n")
        self.assertEqual((len(parser.results), parser.errors), (3, []))
        self.assertEqual(parse("1..2\nok 1 a\n1..1\nok 1 c\n").errors, ["2 tests were planned, 1 reported"])

    def test_plan_at_the_end(self):
        self.assertEqual(parse("ok 1 a\nok 2 b\n1..2\n").errors, [])
        self.assertEqual(len(parse("ok 1 a\n1..2\n").errors), 1)

    def test_parent_is_not_counted_twice(self):
        parser = parse("KTAP version 1\n1..2\n"
                       "  KTAP version 1\n  1..2\n  ok 1 x\n  ok 2 y\n"
                       "ok 1 xy\nok 2 z\n")
        self.assertEqual(outcomes(parser), [("x", "ok"), ("y", "ok"), ("z", "ok")])
        self.assertEqual(parser.errors, [])

    def test_failed_subtest_fails_once(self):
        parser = parse("1..1\n  1..2\n  ok 1 x\n  not ok 2 y\nnot ok 1 xy\n")
        self.assertEqual(outcomes(parser), [("x", "ok"), ("y", "not ok")])

    def test_parent_may_fail_alone(self):
        self.assertEqual(outcomes(parse("1..1\n  1..1\n  ok 1 x\nnot ok 1 clean-up\n")),
                         [("x", "ok"), ("clean-up", "not ok")])

    def test_subtests_plan_is_checked(self):
        self.assertEqual(parse("1..1\n  1..2\n  ok 1 x\nok 1 parent\n").errors,
                         ["2 tests were planned, 1 reported"])

    def test_bail_out(self):
        self.assertEqual(parse("1..1\nBail out! no memory\n").errors[0], "bailed out: no memory")

    def test_words_that_only_look_like_results(self):
        self.assertEqual(parse("okay\nnot okay\nthis is ok 1\n").results, [])

    def test_last_line_without_newline(self):
        self.assertEqual(outcomes(parse("1..1\nok 1 one")), [("one", "ok")])


if __name__ == "__main__":
    unittest.main()
