# SPDX-License-Identifier: GPL-2.0
"""Handles the machines' requests during a scene: barrier, link, say, put."""

import os
import re

from .link import LinkError

USAGE = "usage: link cut|up|clear|delay MS|loss PCT|dup PCT|corrupt PCT [[ethN/]WHERE]"
NAME = re.compile(r"[A-Za-z0-9_.+-]+")


class Desk:
    """One for each scene. `names` are its machines, `networks` its segments."""

    def __init__(self, names, networks, reporter, result, folder):
        self._names = list(names)
        self._networks = networks
        self._reporter = reporter
        self._result = result
        self._folder = folder       # for files of put
        self._barriers = {}         # name -> {host: (machine, request id)}
        self._left = set()          # hosts whose scene has ended

    def ask(self, machine, frame):
        """Handles a request frame; the answer may come later."""
        verb, _, rest = frame.payload.partition(b"\0")
        handlers = {b"barrier": self._barrier, b"link": self._link, b"say": self._say, b"put": self._put}
        if verb in handlers:
            handlers[verb](machine, frame.id, rest)
        else:
            self._answer(machine, frame.id, 2, "no such request\n")

    def left(self, host):
        """The scene of `host` has ended: barriers that wait for it fail."""
        self._left.add(host)
        for name in list(self._barriers):
            self._check_barrier(name)

    @staticmethod
    def _answer(machine, ident, code, text=""):
        machine.send("rep", ident, f"{code}\n{text}".encode())

    def _barrier(self, machine, ident, rest):
        words = _words(rest)
        if len(words) != 1:
            self._answer(machine, ident, 2, "usage: barrier NAME\n")
            return
        self._barriers.setdefault(words[0], {})[machine.name] = (machine, ident)
        self._check_barrier(words[0])

    def _check_barrier(self, name):
        waiting = self._barriers[name]
        missing = [host for host in self._names if host not in waiting]
        gone = [host for host in missing if host in self._left]
        if missing and not gone:
            return
        code, text = (1, f"barrier {name}: {', '.join(gone)} ended before it\n") if gone else (0, "")
        del self._barriers[name]
        for machine, ident in waiting.values():
            self._answer(machine, ident, code, text)

    def _link(self, machine, ident, rest):
        words = _words(rest)
        try:
            if not words:
                raise LinkError(USAGE)
            values = [word for word in words[1:] if re.fullmatch(r"-?[0-9.]+", word)]
            places = [word for word in words[1:] if word not in values]
            if len(places) > 1:
                raise LinkError(f"link: {' '.join(places)}: one place at a time")
            networks, where = self._place(places[0] if places else None)
            for network in networks:
                network.command(words[0], values, where)
        except LinkError as error:
            self._answer(machine, ident, 1, f"{error}\n")
            return
        self._answer(machine, ident, 0)

    def _place(self, place):
        """(networks, where) of a command's last word: all of eth0 without a segment."""
        match = re.fullmatch(r"eth(\d)(?:/(.*))?", place or "")
        number, where = (int(match[1]), match[2]) if match else (0, place)
        if number >= len(self._networks):
            raise LinkError(f"link: there is no segment eth{number}")
        return [self._networks[number]], where

    def _say(self, machine, ident, rest):
        self._reporter.say(machine.name, " ".join(_words(rest)))
        self._answer(machine, ident, 0)

    def _put(self, machine, ident, rest):
        name, part, data = rest.split(b"\0", 2)
        name = name.decode("utf-8", "replace")
        if not NAME.fullmatch(name) or name.startswith("."):
            self._answer(machine, ident, 1, f"put: bad name {name}\n")
            return
        os.makedirs(self._folder, exist_ok=True)
        path = f"{self._folder}/{machine.name}.{name}"
        with open(path, "wb" if part == b"first" else "ab") as file:
            file.write(data)
        if path not in self._result.files:
            self._result.files.append(path)
        self._answer(machine, ident, 0)


def _words(rest):
    return [word.decode("utf-8", "replace") for word in rest.split(b"\0") if word]
