# SPDX-License-Identifier: GPL-2.0
"""Answers to machines' requests."""

import os
import tempfile
import unittest

from lab.desk import Desk
from lab.link import Direct, Switch
from lab.loop import Loop
from lab.protocol import Frame
from lab.verdict import SceneResult


class FakeMachine:
    """Records answers: {request id: (code, text)}."""

    def __init__(self, name):
        self.name = name
        self.answers = {}

    def send(self, verb, ident, payload):
        assert verb == "rep"
        code, _, text = payload.decode().partition("\n")
        self.answers[ident] = (int(code), text)


class FakeReporter:
    def __init__(self):
        self.lines = []

    def say(self, host, text):
        self.lines.append((host, text))


class DeskTest(unittest.TestCase):
    def setUp(self):
        self.loop = Loop()
        self.folder = tempfile.TemporaryDirectory()
        self.networks = [Switch(self.loop, ["a", "b"], 1), Switch(self.loop, ["a", "b"], 1)]
        self.reporter = FakeReporter()
        self.result = SceneResult("scene.sh", {})
        self.desk = Desk(["a", "b"], self.networks, self.reporter, self.result, self.folder.name)
        self.a, self.b = FakeMachine("a"), FakeMachine("b")

    def tearDown(self):
        for network in self.networks:
            network.close()
        self.loop.close()
        self.folder.cleanup()

    def ask(self, machine, ident, *words):
        """Sends a request and returns the answer, if any."""
        self.desk.ask(machine, Frame("req", ident, b"".join(word.encode() + b"\0" for word in words)))
        return machine.answers.get(ident)

    def test_barrier_opens_when_all_are_there(self):
        self.assertIsNone(self.ask(self.a, 1, "barrier", "x"))
        self.assertEqual(self.ask(self.b, 7, "barrier", "x"), (0, ""))
        self.assertEqual(self.a.answers[1], (0, ""))

    def test_barriers_have_names(self):
        self.ask(self.a, 1, "barrier", "x")
        self.assertIsNone(self.ask(self.b, 1, "barrier", "y"))
        self.assertEqual(self.a.answers, {})

    def test_barrier_can_be_used_again(self):
        for ident in (1, 2):
            self.assertIsNone(self.ask(self.a, ident, "barrier", "x"))
            self.assertEqual(self.ask(self.b, ident, "barrier", "x"), (0, ""))

    def test_nobody_waits_for_a_machine_that_ended(self):
        self.ask(self.a, 1, "barrier", "x")
        self.desk.left("b")
        self.assertEqual(self.a.answers[1], (1, "barrier x: b ended before it\n"))
        self.assertEqual(self.ask(self.a, 2, "barrier", "y")[0], 1)

    def test_link_sets_the_direction_and_segment_that_were_named(self):
        self.assertEqual(self.ask(self.a, 1, "link", "delay", "30", "b-to-a"), (0, ""))
        self.assertEqual(self.networks[0].faults["b", "a"].delay_ms, 30)
        self.assertEqual(self.networks[0].faults["a", "b"].delay_ms, 0)
        self.assertEqual(self.ask(self.a, 2, "link", "cut", "eth1/a-b"), (0, ""))
        self.assertEqual([network.faults["a", "b"].cut for network in self.networks], [False, True])

    def test_link_mistakes_are_answered(self):
        for ident, words in enumerate((["link"], ["link", "melt"], ["link", "cut", "eth5"],
                                       ["link", "cut", "a-z"], ["link", "loss", "200"],
                                       ["link", "cut", "a-b", "b-a"])):
            self.assertEqual(self.ask(self.a, ident, *words)[0], 1, words)

    def test_direct_links_have_no_faults(self):
        direct = Direct(["a", "b"])
        desk = Desk(["a", "b"], [direct], self.reporter, self.result, self.folder.name)
        desk.ask(self.a, Frame("req", 1, b"link\0cut\0"))
        self.assertEqual(self.a.answers[1][0], 1)
        direct.close()

    def test_say(self):
        self.assertEqual(self.ask(self.a, 1, "say", "half", "way"), (0, ""))
        self.assertEqual(self.reporter.lines, [("a", "half way")])

    def test_put_joins_pieces_whatever_is_in_them(self):
        pieces = [bytes(range(256)), b"\0\0more", b""]
        for ident, piece in enumerate(pieces):
            part = b"first" if ident == 0 else b"more"
            self.desk.ask(self.a, Frame("req", ident, b"put\0data.bin\0" + part + b"\0" + piece))
            self.assertEqual(self.a.answers[ident], (0, ""))
        path = os.path.join(self.folder.name, "a.data.bin")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"".join(pieces))
        self.assertEqual(self.result.files, [path])

    def test_put_stays_in_its_folder(self):
        for ident, name in enumerate(("../x", "/etc/x", ".hidden", "a b")):
            self.desk.ask(self.a, Frame("req", ident, f"put\0{name}\0first\0x".encode()))
            self.assertEqual(self.a.answers[ident][0], 1, name)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_unknown_request(self):
        self.assertEqual(self.ask(self.a, 1, "reboot")[0], 2)


if __name__ == "__main__":
    unittest.main()
