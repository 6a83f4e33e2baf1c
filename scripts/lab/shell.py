# SPDX-License-Identifier: GPL-2.0
"""The interactive shell: the user's terminal on the console of one machine at a time."""

import os
import sys
import termios
import tty

PREFIX = 0x1D               # Ctrl-]
RECENT_MAX = 4096           # bytes of a console that are shown again when the user switches to it
HELP = "Ctrl-] a, b, ...: that host; Ctrl-] q: end; Ctrl-] Ctrl-]: the key itself"


class Terminal:
    """Connects stdin and stdout to consoles. Make it, then call work() until it returns."""

    def __init__(self, loop, machines):
        self.loop = loop
        self.machines = machines
        self.shown = next(iter(machines))
        self._recent = {name: b"" for name in machines}
        self._after_prefix = False
        self._done = False
        for machine in machines.values():
            machine.on_console = self._console

    def work(self):
        """Returns when the user or a machine ends it."""
        saved = None
        if sys.stdin.isatty():
            saved = termios.tcgetattr(0)
            tty.setraw(0)
        self.loop.reader(0, self._keyboard)
        try:
            self._tell(f"{HELP}. Now: {self.shown}")
            self.machines[self.shown].type(b"\r")
            while not self._done and all(machine.alive for machine in self.machines.values()):
                self.loop.step()
        finally:
            self.loop.forget(0)
            if saved:
                termios.tcsetattr(0, termios.TCSADRAIN, saved)

    def _keyboard(self):
        keys = os.read(0, 4096)
        if not keys:
            self._done = True
        for key in keys:
            if self._after_prefix and key != PREFIX:
                self._after_prefix = False
                self._command(chr(key))
            elif key == PREFIX and not self._after_prefix:
                self._after_prefix = True
            else:
                self._after_prefix = False
                self.machines[self.shown].type(bytes([key]))

    def _command(self, key):
        if key == "q":
            self._done = True
        elif key in self.machines:
            self.shown = key
            self._tell(f"host {key}")
            self._write(self._recent[key])
        else:
            self._tell(HELP)

    def _console(self, machine, data):
        self._recent[machine.name] = (self._recent[machine.name] + data)[-RECENT_MAX:]
        if machine.name == self.shown:
            self._write(data)

    def _tell(self, text):
        self._write(f"\r\n[lab: {text}]\r\n".encode())

    @staticmethod
    def _write(data):
        while data:
            data = data[os.write(1, data):]
