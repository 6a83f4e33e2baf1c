# SPDX-License-Identifier: GPL-2.0
"""The loop's order of events."""

import socket
import unittest

from lab.loop import Loop


class LoopTest(unittest.TestCase):
    def test_a_file_that_is_forgotten_has_no_events_any_more(self):
        """As when a machine ends, with data on its control port: both are noticed at once."""
        loop, called = Loop(), []
        pairs = [socket.socketpair() for _ in range(2)]
        ends = [ours for ours, _ in pairs]

        def on_data(number):
            called.append(number)
            loop.forget(ends[0])
            loop.forget(ends[1])
        for number, (ours, theirs) in enumerate(pairs):
            loop.reader(ours, lambda number=number: on_data(number))
            theirs.send(b"x")
        loop.step()
        self.assertEqual(len(called), 1)
        for pair in pairs:
            for end in pair:
                end.close()
        loop.close()


if __name__ == "__main__":
    unittest.main()
