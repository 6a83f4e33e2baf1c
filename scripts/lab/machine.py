# SPDX-License-Identifier: GPL-2.0
"""One virtual machine: the QEMU process, its control port and its console."""

import json
import os
import select
import socket
import subprocess

from . import protocol


class Machine:
    """Call start(), then frames and the machine's end arrive at the callbacks."""

    def __init__(self, loop, name, folder):
        self.name = name
        self.loop = loop
        self.folder = folder                            # short path: sockets live here
        self.console_path = f"{folder}/{name}.log"
        self.on_frame = lambda machine, frame: None
        self.on_end = lambda machine: None              # QEMU is gone
        self.process = None
        self._decoder = protocol.Decoder()
        self._nonsense = []
        self._listeners = {}
        self.on_console = lambda machine, data: None
        self._control = None
        self._monitor = None
        self._console = None
        self._pid_file = None

    def start(self, qemu, arguments, descriptors=()):
        """Starts the program `qemu` with `arguments` and the control port, monitor and console that every machine has."""
        # No machine outlives this process.
        command = ["setpriv", "--pdeathsig", "KILL", qemu, "-nodefaults", "-no-user-config",
                   "-display", "none", "-no-reboot", *arguments]
        command += ["-device", "virtio-serial-pci",
                    "-chardev", f"socket,id=control,path={self._listen('control', self._accept_control)}",
                    "-device", "virtserialport,chardev=control,name=lab.control",
                    "-chardev", f"socket,id=monitor,path={self._listen('monitor', self._accept_monitor)}",
                    "-mon", "chardev=monitor,mode=control"]
        command += ["-chardev", f"socket,id=console,path={self._listen('console', self._accept_console)},"
                                f"logfile={self.console_path}",
                    "-serial", "chardev:console"]
        with open(f"{self.console_path}.qemu", "wb") as complaints:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=complaints, pass_fds=descriptors, start_new_session=True)
        self._pid_file = os.pidfd_open(self.process.pid)
        self.loop.reader(self._pid_file, self._ended)

    def send(self, verb, ident=0, payload=b""):
        """Sends a frame; ignored when the machine has ended."""
        if self._control:
            try:
                self._control.sendall(protocol.encode(verb, ident, payload))
            except OSError:
                pass

    def ask_kernel(self, key):
        """Presses a SysRq key on the serial console, so that a hanging kernel prints where."""
        if self._monitor and self._console:
            command = {"execute": "chardev-send-break", "arguments": {"id": "console"}}
            self._monitor.sendall(json.dumps(command).encode() + b"\n")
            self.loop.after(0.2, lambda: self.type(key.encode()))

    def type(self, data):
        """Bytes for the serial console."""
        if self._console:
            self._console.sendall(data)

    def stop(self):
        """Ends QEMU at once and waits for it."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for file in (self._control, self._monitor, self._console, *self._listeners.values()):
            if file:
                self._close(file)
        self._control = self._monitor = self._console = None
        self._listeners = {}
        if self.process and self._pid_file is not None:
            self.loop.forget(self._pid_file)
            os.close(self._pid_file)
            self._pid_file = None

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def console_tail(self, lines=40):
        """The last lines of the console, for people; not used for the verdict."""
        try:
            with open(self.console_path, "rb") as file:
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]

    def complaint(self):
        """QEMU's own messages, and errors on the control port."""
        with open(f"{self.console_path}.qemu", encoding="utf-8", errors="replace") as file:
            lines = [line for line in file.read().splitlines() if "qemu-system-gui" not in line]
        return self._nonsense + lines

    def _listen(self, name, accept):
        path = f"{self.folder}/{self.name}.{name}"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(1)
        self._listeners[name] = listener
        self.loop.reader(listener, accept)
        return path

    def _accept(self, name):
        listener = self._listeners.pop(name)
        connection, _ = listener.accept()
        self._close(listener)
        return connection

    def _close(self, file):
        try:
            self.loop.forget(file)
        except KeyError:
            pass
        file.close()

    def _accept_control(self):
        self._control = self._accept("control")
        self.loop.reader(self._control, self._read_control)

    def _accept_monitor(self):
        self._monitor = self._accept("monitor")
        self._monitor.sendall(b'{"execute": "qmp_capabilities"}\n')
        self.loop.reader(self._monitor, self._read_monitor)

    def _accept_console(self):
        self._console = self._accept("console")
        self.loop.reader(self._console, self._read_console)

    def _read_console(self):
        data = self._receive(self._console)
        if not data:
            self._close(self._console)
            self._console = None
            return
        self.on_console(self, data)

    def _read_monitor(self):
        if not self._receive(self._monitor):
            self._close(self._monitor)
            self._monitor = None

    def _receive(self, file):
        try:
            return file.recv(262144)
        except OSError:
            return b""

    def _read_control(self):
        data = self._receive(self._control)
        if not data:
            self._close(self._control)
            self._control = None
            return
        try:
            frames = self._decoder.feed(data)
        except protocol.ProtocolError as error:
            # A machine whose agent sends invalid data is broken: end it, and its scene fails.
            self._nonsense = [f"nonsense on the control port: {error}"]
            self.process.kill()
            return
        for frame in frames:
            self.on_frame(self, frame)

    def _ended(self):
        self.loop.forget(self._pid_file)
        os.close(self._pid_file)
        self._pid_file = None
        self.process.wait()
        # Data sent before its end counts.
        while self._control and self._readable(self._control):
            self._read_control()
        self.on_end(self)

    @staticmethod
    def _readable(file):
        return bool(select.select([file], [], [], 0)[0])
