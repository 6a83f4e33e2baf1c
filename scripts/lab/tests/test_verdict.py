# SPDX-License-Identifier: GPL-2.0
"""Verdicts on scenes."""

import os
import tempfile
import unittest

from lab import kernlog
from lab.verdict import SceneResult, Skips, Evidence, judge, parse_report

IDS = {"ours": {"rds": "11", "hawser": "12"}, "kernel": {"rds": "21"}}
FINE = b"exit 0\ntaint 12288\nmodule rds 11\nmodule veth 99\n"


def reasons(suite="ours", report=FINE, output=b"", log=(), leaks="", skips=""):
    """Judges one machine; returns why it failed."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(skips)
        file.flush()
        listed = Skips(file.name)
    evidence = Evidence(leaks=leaks)
    evidence.output_bytes(1, output)
    for line in log:
        evidence.kernel_record(f"4,100,1500000,-;{line}\n".encode())
    evidence.report = parse_report(report) if report else None
    result = SceneResult("scene.sh", {})
    judge(result, "a", suite, evidence, IDS, listed)
    return [reason for _, reason, _ in result.failures]


class EmulationTest(unittest.TestCase):
    OOPS = "[    4.081503] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI"

    def test_a_breakpoint_in_the_kernel_is_the_emulators(self):
        self.assertTrue(kernlog.emulation_broke([self.OOPS, "[    4.0] RIP: 0010:sched_clock_tick+0x5/0xb0"]))

    def test_flags_that_cannot_be_are_the_emulators(self):
        self.assertTrue(kernlog.emulation_broke(["[   96.7] RSP: 0018:ffffc90000003ea0 EFLAGS: 1f987483"]))
        self.assertTrue(kernlog.emulation_broke(["[   96.7] RSP: 0018:ffffc90000003ea0 EFLAGS: 00000000"]))
        self.assertFalse(kernlog.emulation_broke(["[   96.7] RSP: 0018:ffffc90000003ea0 EFLAGS: 00010246"]))
        self.assertFalse(kernlog.emulation_broke(["[   96.7] RSP: 002b:00007ffe6f935518 EFLAGS: 00000202 ORIG_RAX: 2c"]))

    def test_what_may_be_ours_is_not(self):
        self.assertFalse(kernlog.emulation_broke([self.OOPS, "[    4.0] RIP: 0010:rds_sendmsg+0x5/0xb0 [rds]"]))
        self.assertFalse(kernlog.emulation_broke([self.OOPS]))
        self.assertFalse(kernlog.emulation_broke(["Oops: 0002 [#1] SMP", "RIP: 0010:kfree+0x5/0xb0"]))


class TaintTest(unittest.TestCase):
    def test_out_of_tree_and_unsigned_are_allowed(self):
        self.assertEqual(kernlog.decode_taint((1 << 12) | (1 << 13)), [])

    def test_others_are_named(self):
        self.assertEqual(kernlog.decode_taint((1 << 9) | (1 << 7) | (1 << 12)),
                         ["died (oops or BUG)", "warning issued"])
        self.assertEqual(kernlog.decode_taint(1 << 40), ["unknown flag 40"])


class KernelLogTest(unittest.TestCase):
    def test_record(self):
        self.assertEqual(kernlog.parse_record(b"6,339,5140900,-;NET: hello\\x0a\n SUBSYSTEM=net\n"),
                         (5.1409, "NET: hello\n"))

    def test_complaints(self):
        for line in (
                "BUG: kernel NULL pointer dereference, address: 0000000000000008",
                "WARNING: CPU: 1 PID: 98 at net/core/dev.c:3 dev_x+0x1/0x2",
                "WARNING: possible circular locking dependency detected",
                "BUG: KASAN: slab-out-of-bounds in f+0x1/0x2",
                "UBSAN: array-index-out-of-bounds in a.c:1:2",
                "INFO: task cat:12 blocked for more than 30 seconds.",
                "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [x:1]",
                "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
                "rcu: INFO: rcu_preempt self-detected stall on CPU",
                "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
                "kmemleak: Kernel memory leak detector disabled",
                "BUG: KCSAN: data-race in f [rds] / g [hawser]",
                "BUG: KCSAN: data-race in tcp_poll / g [rds_tcp]",
                "turning off the locking correctness validator.",
                "x: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
                "refcount_t: underflow; use-after-free.",
                "list_del corruption. prev->next should be ...",
                "BUG: sleeping function called from invalid context at mm/x.c:1",
                "usercopy: Kernel memory exposure attempt detected from page alloc",
                "CFI failure at kapi_test_wrong_type+0x1b/0x40 [kapi_test] (target: add_one+0x0/0x10 [kapi_test])",
                "unregister_netdevice: waiting for lo to become free. Usage count = 2",
                "Oops: 0002 [#1] PREEMPT SMP NOPTI",
                "general protection fault, probably for non-canonical address 0x1: 0000 [#1]",
                "kernel BUG at net/x.c:12!",
                "kmem_cache_destroy hawser: BUG: still has objects"):
            self.assertTrue(kernlog.complains(line), line)

    def test_ordinary_lines(self):
        for line in ("NET: Registered PF_RDS protocol family", "Registered RDS/tcp transport",
                     "hawser: loading out-of-tree module taints kernel.", "Freeing unused decrypted memory",
                     "DEBUG: nothing", "rcu: Hierarchical RCU implementation.",
                     "rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.",
                     "BUG: KCSAN: data-race in tcp_poll / tcp_ack", "Spectre V2 : WARNINGS are off"):
            self.assertFalse(kernlog.complains(line), line)


class JudgeTest(unittest.TestCase):
    def test_all_is_well(self):
        self.assertEqual(reasons(output=b"1..1\nok 1 one\n", log=["hello"]), [])

    def test_exit_code(self):
        self.assertEqual(reasons(report=b"exit 3\ntaint 0\n"), ["the scene ended with exit code 3"])

    def test_taint(self):
        self.assertEqual(reasons(report=b"exit 0\ntaint 512\n"), ["kernel tainted: warning issued"])

    def test_not_ok(self):
        self.assertEqual(reasons(output=b"1..1\nnot ok 1 one\n"), ["not ok: one"])

    def test_kernel_log(self):
        self.assertEqual(reasons(log=["fine", "BUG: not fine", "RIP: x"]), ["kernel log: BUG: not fine"])

    def test_leak(self):
        self.assertEqual(reasons(leaks="unreferenced object\n"), ["kmemleak: unreferenced memory"])

    def test_module_of_the_other_suite(self):
        self.assertEqual(reasons(suite="kernel"),
                         ["wrong module: rds with build-id 11 is not that of suite kernel"])
        self.assertEqual(reasons(suite="kernel", report=b"exit 0\ntaint 0\nmodule rds 21\n"), [])

    def test_module_that_no_suite_knows(self):
        self.assertEqual(reasons(report=b"exit 0\ntaint 0\nmodule kcm 77\n"),
                         ["wrong module: kcm with build-id 77 is not that of suite ours"])

    def test_skip_must_be_listed(self):
        output = b"1..1\nok 1 rdma here # SKIP no device\n"
        self.assertEqual(len(reasons(output=output)), 1)
        listed = "# comment\nscene.sh: rdma * # siw is off in Debian\n"
        self.assertEqual(reasons(output=output, skips=listed), [])
        self.assertEqual(len(reasons(output=output, skips="other.sh: rdma * # a reason\n")), 1)
        self.assertEqual(len(reasons(output=output, skips="scene.sh: rdma *\n")), 1, "a skip needs a reason")


class SkipsTest(unittest.TestCase):
    def test_no_list_allows_nothing(self):
        self.assertFalse(Skips(os.path.join(tempfile.gettempdir(), "not there")).allows("a", "b"))


if __name__ == "__main__":
    unittest.main()
