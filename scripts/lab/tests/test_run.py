# SPDX-License-Identifier: GPL-2.0
import unittest

from lab.run import whole_scale


class Environment(unittest.TestCase):
    def test_scenes_get_an_integer_scale(self):
        self.assertEqual([whole_scale(scale) for scale in (0.5, 1.0, 1.5, 4.0)], [1, 1, 2, 4])
