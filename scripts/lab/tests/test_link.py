# SPDX-License-Identifier: GPL-2.0
"""Faults of links, and the switch with real sockets."""

import random
import unittest

from lab import link
from lab.loop import Loop

FRAME_AB = bytes.fromhex("020000000002" "020000000001" "0800") + b"payload of a frame"
FRAME_BA = bytes.fromhex("020000000001" "020000000002" "0800") + b"payload of an answer"
BROADCAST = bytes.fromhex("ffffffffffff" "020000000001" "0806") + b"who has"


class FaultsTest(unittest.TestCase):
    def test_no_fault_passes_frames_as_they_are(self):
        self.assertEqual(link.Faults().apply(FRAME_AB, random.Random(1)), [FRAME_AB])

    def test_cut_loses_everything_and_up_restores(self):
        faults = link.Faults()
        faults.set("cut", [])
        self.assertEqual(faults.apply(FRAME_AB, random.Random(1)), [])
        faults.set("up", [])
        self.assertEqual(faults.apply(FRAME_AB, random.Random(1)), [FRAME_AB])

    def test_loss_is_the_share_that_was_asked_for(self):
        faults = link.Faults(loss_pct=30)
        rng = random.Random(7)
        passed = sum(len(faults.apply(FRAME_AB, rng)) for _ in range(10000))
        self.assertAlmostEqual(passed / 10000, 0.7, delta=0.02)

    def test_loss_repeats_with_its_seed(self):
        faults = link.Faults(loss_pct=50)
        runs = [[len(faults.apply(FRAME_AB, rng)) for _ in range(200)]
                for rng in (random.Random(3), random.Random(3), random.Random(4))]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_dup_doubles(self):
        self.assertEqual(link.Faults(dup_pct=100).apply(FRAME_AB, random.Random(1)), [FRAME_AB, FRAME_AB])

    def test_corrupt_changes_one_bit_behind_the_addresses(self):
        rng = random.Random(5)
        for _ in range(100):
            damaged, = link.Faults(corrupt_pct=100).apply(FRAME_AB, rng)
            self.assertEqual(damaged[:14], FRAME_AB[:14])
            bits = sum(bin(x ^ y).count("1") for x, y in zip(damaged, FRAME_AB))
            self.assertEqual((bits, len(damaged)), (1, len(FRAME_AB)))

    def test_clear_takes_every_fault_away(self):
        faults = link.Faults(True, 5, 5, 5, 5)
        faults.set("clear", [])
        self.assertEqual(faults, link.Faults())

    def test_nonsense_is_refused(self):
        for verb, values in (("loss", ["101"]), ("loss", []), ("delay", ["-1"]), ("dup", ["x"]),
                             ("cut", ["1"]), ("melt", [])):
            with self.assertRaises(link.LinkError):
                link.Faults().set(verb, values)


class SwitchTest(unittest.TestCase):
    def setUp(self):
        self.loop = Loop()
        self.switch = link.Switch(self.loop, ["a", "b", "c"], seed=1)
        self.ends = self.switch.machine_ends

    def tearDown(self):
        self.switch.close()
        self.loop.close()

    def waiting(self, name):
        """The frames that lie ready for machine `name`."""
        frames = []
        try:
            while True:
                frames.append(self.ends[name].recv(link.FRAME_MAX))
        except BlockingIOError:
            return frames

    def received(self, name, longest=0.05, enough=None):
        """The frames that machine `name` gets in this time, or until there are enough."""
        frames = []
        until = self.loop.now() + longest
        while True:
            self.loop.step(max(0, until - self.loop.now()))
            frames += self.waiting(name)
            if len(frames) == enough or self.loop.now() >= until:
                return frames

    def test_broadcast_reaches_all_others(self):
        self.ends["a"].send(BROADCAST)
        self.assertEqual(self.received("b"), [BROADCAST])
        self.assertEqual(self.received("c"), [BROADCAST])
        self.assertEqual(self.received("a"), [])

    def test_known_address_reaches_only_its_machine(self):
        self.ends["b"].send(FRAME_BA)
        self.received("a")
        self.received("c")
        self.ends["a"].send(FRAME_AB)
        self.assertEqual(self.received("b"), [FRAME_AB])
        self.assertEqual(self.received("c"), [])

    def test_cut_of_one_direction_leaves_the_other(self):
        self.switch.command("cut", [], "a-to-b")
        self.ends["a"].send(BROADCAST)
        self.assertEqual(self.received("b"), [])
        self.ends["b"].send(FRAME_BA)
        self.assertEqual(self.received("a"), [FRAME_BA])

    def test_cut_of_a_machine_cuts_all_its_links(self):
        self.switch.command("cut", [], "a")
        self.ends["a"].send(BROADCAST)
        self.assertEqual(self.received("b") + self.received("c"), [])
        self.ends["b"].send(BROADCAST)
        self.assertEqual(self.received("c"), [BROADCAST])

    def test_delay_holds_a_frame_back_and_keeps_order(self):
        now = 1000.0    # the loop's clock, which a busy machine does not move
        self.loop.now = lambda: now
        self.switch.command("delay", ["60"], "a-b")
        for number in range(5):
            self.ends["a"].send(BROADCAST + bytes([number]))
        self.loop.step()
        now += 0.059
        self.loop.step(0)
        self.assertEqual(self.waiting("b"), [])
        now += 0.002
        self.loop.step(0)
        self.assertEqual(self.waiting("b"), [BROADCAST + bytes([number]) for number in range(5)])

    def test_a_busy_machine_gets_its_frames_later(self):
        sent = []
        for number in range(500):
            frame = BROADCAST + number.to_bytes(2, "big") + bytes(60000)
            while True:
                try:
                    self.ends["a"].send(frame)
                    break
                except BlockingIOError:
                    self.loop.step(0.01)
            sent.append(frame)
        self.assertEqual(self.received("b", 60, len(sent)), sent)

    def test_a_place_that_is_not_there_is_refused(self):
        for where in ("z", "a-z", "a-to-a", "ab"):
            with self.assertRaises(link.LinkError):
                self.switch.command("cut", [], where)


class DirectTest(unittest.TestCase):
    def test_two_ends_are_one_wire_and_have_no_faults(self):
        direct = link.Direct(["a", "b"])
        direct.machine_ends["a"].send(FRAME_AB)
        self.assertEqual(direct.machine_ends["b"].recv(link.FRAME_MAX), FRAME_AB)
        with self.assertRaises(link.LinkError):
            direct.command("cut", [])
        direct.close()


if __name__ == "__main__":
    unittest.main()
