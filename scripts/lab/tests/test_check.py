# SPDX-License-Identifier: GPL-2.0
"""check.py: a step that fails once, and the steps that may be tried again."""

import contextlib
import io
import os
import tempfile
import threading
import time
import unittest
from unittest import mock

import check
import plan


class Attempts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.counter = f"{folder.name}/runs"
        out = mock.patch.object(check, "OUT", folder.name)
        out.start()
        self.addCleanup(out.stop)

    def run_step(self, attempts, good_run):
        """A step that passes in its run number `good_run`, counted from 1; and its number of runs."""
        script = f'echo >>"$0"; [ "$(wc -l <"$0")" = {good_run} ]'
        step = plan.Step("static", "step", ["bash", "-c", script, self.counter], ("all",), 5, attempts=attempts)
        check.Runner().run(step)
        return step, os.path.getsize(self.counter)

    def test_the_second_attempt_counts(self):
        step, runs = self.run_step(attempts=2, good_run=2)
        self.assertEqual((step.passed, step.failed, runs), (1, 0, 2))
        self.assertEqual(step.reasons, [])
        self.assertEqual(len(step.earlier), 1)

    def test_one_that_passes_runs_once(self):
        step, runs = self.run_step(attempts=2, good_run=1)
        self.assertEqual((step.passed, step.failed, runs), (1, 0, 1))

    def test_the_logs_of_a_scene_that_failed_are_kept(self):
        logs = f"{self.counter}.logs"
        script = 'mkdir -p "$1"; echo >>"$0"; cp "$0" "$1/kmsg"; echo "  logs: $1"; [ "$(wc -l <"$0")" = 2 ]'
        step = plan.Step("static", "step", ["bash", "-c", script, self.counter, logs], ("all",), 5, attempts=2)
        check.Runner().run(step)
        self.assertEqual((step.passed, step.failed), (1, 0))
        self.assertEqual((os.path.getsize(f"{logs}.1/kmsg"), os.path.getsize(f"{logs}/kmsg")), (1, 2))

    def test_not_more_than_the_attempts(self):
        step, runs = self.run_step(attempts=2, good_run=3)
        self.assertEqual((step.passed, step.failed, runs), (0, 1, 2))

    def test_a_step_has_one_attempt(self):
        step, runs = self.run_step(attempts=1, good_run=2)
        self.assertEqual((step.passed, step.failed, runs), (0, 1, 1))

    def test_a_step_whose_output_reports_no_test_fails(self):
        for output, good in (("0 passed, 0 failed", False), ("[  PASSED  ] 0 tests.", False), ("1..0", False),
                             ("Ran 0 tests in 0.0s", False), ("built", True), ("1 passed, 0 failed", True)):
            step = plan.Step("static", "step", ["echo", output], ("all",), 5)
            check.Runner().run(step)
            self.assertEqual((output, step.passed, step.failed), (output, int(good), int(not good)))

    def test_what_the_suite_can_be_blamed_for_is_not_tried_again(self):
        def attempts(machines, scene="selftests/x.sh"):
            return plan.scene_step("lab", scene, machines, 1, levels=("all",), budget=1).attempts
        self.assertEqual(attempts("6.1:kernel"), 2)
        self.assertEqual(attempts("6.1:ours/6.1:kernel", "selftests/rds/rdma.sh"), 1)
        self.assertEqual(attempts("6.1:ours/6.12:ours", "selftests/rds/rdma.sh"), 1)
        self.assertEqual(attempts("6.12:ours", "selftests/rds/tools_rdma.sh"), 2)
        self.assertEqual(attempts("6.1:ours"), 1)
        self.assertEqual(attempts("6.1:kernel/6.1:ours"), 1)
        self.assertEqual(attempts("6.1:kernel/6.1:ours", "selftests/rtrs/rnbd.sh"), 2)
        self.assertEqual(attempts("6.1:ours", "selftests/rtrs/rnbd.sh"), 1)


class Scenes(unittest.TestCase):
    def run_scenes(self, wanted, machines):
        """Scenes with so many machines each; the most machines at once, and how many scenes ran."""
        lock, ran, most = threading.Lock(), [], [0, 0]

        class Runner:
            def run(self, step):
                with lock:
                    most[0] += step.machines
                    most[1] = max(most)
                time.sleep(0.02)
                with lock:
                    most[0] -= step.machines
                    ran.append(step)

        steps = [plan.Step("lab", str(count), [], ("all",), 5, machines=count) for count in wanted]
        with contextlib.redirect_stdout(io.StringIO()):
            check.run_scenes(Runner(), steps, machines)
        return most[1], len(ran)

    def test_run_side_by_side(self):
        self.assertEqual(self.run_scenes([1, 1, 1, 1], 2), (2, 4))
        self.assertEqual(self.run_scenes([2, 1, 1, 2, 1], 2), (2, 5))

    def test_with_more_machines_than_there_are_places__run_alone(self):
        self.assertEqual(self.run_scenes([1, 3, 1], 2), (3, 3))

    def test_the_number_of_machines_is_the_scene_s(self):
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write("#!/bin/sh\n# lab: hosts=3\n")
            file.flush()
            self.assertEqual(plan.machines_of(file.name), 3)


if __name__ == "__main__":
    unittest.main()
