# SPDX-License-Identifier: GPL-2.0
"""One boot: starts the machines and their links, runs scenes in them, and judges their reports."""

import math
import os
import shutil
import tempfile

from . import kernlog, kvm, link
from .desk import Desk
from .machine import Machine
from .scene import HOST_NAMES
from .verdict import SceneResult, Evidence, judge, parse_report

BOOT_SECONDS = 60
CONSOLE_TAIL = 100
HANG_DUMP_SECONDS = 4       # for a hanging kernel's answers to SysRq
COMMAND_LINE = ("loglevel=5 panic=-1 oops=panic log_buf_len=4M sysrq_always_enabled "
                "random.trust_cpu=on rdinit=/init")


def whole_scale(scale):
    """The scale of time limits for scenes: shells calculate with integers only."""
    return math.ceil(max(1, scale))


class Boot:
    """Machines that are up. Make it, start() it, play() scenes, and always stop() it."""

    def __init__(self, loop, options, scenes, specs, reporter):
        self.loop = loop
        self.options = options
        self.first = scenes[0]              # scenes that share a boot need the same machines
        self.scenes = scenes
        self.specs = specs                  # host name -> (Kernel, suite)
        self.reporter = reporter
        self.time_scale = options.time_scale * max(kernel.architecture.slowness for kernel, _ in specs.values())
        self.healthy = False                # may play another scene
        self.emulation_failed = False       # QEMU itself broke a machine, see kernlog.EMULATION
        self.build_ids = {}                 # host name -> {suite: {module: build-id}}
        self.machines = {}
        self._networks = []
        self._work = tempfile.mkdtemp(prefix="lab-")    # short, because socket paths are limited
        self._released = {}                 # host name -> uname -r, once it is up
        self._evidence = {name: Evidence() for name in specs}
        self._played = False
        self._desk = None                   # answers the machines' requests, one for each scene
        self._ended = []                    # names of machines whose QEMU has ended

    def start(self, builder):
        """Boots all machines; returns a reason if one does not come up."""
        images = {}
        for kernel, _ in self.specs.values():
            if kernel.name not in images:
                images[kernel.name] = builder.build(kernel, self.scenes, self._work)
        names = list(self.specs)
        for _ in range(self.first.segments):
            self._networks.append(self._network(names))
        for name, (kernel, suite) in self.specs.items():
            image = images[kernel.name]
            self.build_ids[name] = image.build_ids
            machine = Machine(self.loop, name, self._work)
            machine.on_frame = self._frame
            machine.on_end = lambda machine: self._ended.append(machine.name)
            machine.start(kernel.architecture.qemu, *self._arguments(name, kernel, suite, image, builder))
            self.machines[name] = machine
        deadline = self.loop.now() + BOOT_SECONDS * self.time_scale
        while len(self._released) < len(names) and not self._ended and self.loop.now() < deadline:
            self.loop.step()
        return self._boot_failure()

    def stop(self):
        for machine in self.machines.values():
            machine.stop()
        for network in self._networks:
            network.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def play(self, number, logs, skips):
        """Runs scenes[number] on every machine; returns its SceneResult."""
        scene = self.scenes[number]
        result = SceneResult(scene.name, self._hosts(), logs=logs)
        if self._played:    # the boot's messages count for the first scene
            self._evidence = {name: Evidence() for name in self.machines}
        self._played = True
        self._desk = Desk(self.specs, self._networks, self.reporter, result, self.options.out or logs)
        started = self.loop.now()
        for name, machine in self.machines.items():
            machine.send("scene", 0, self._command(name, "-eu", f"/lab/scenes/{number}"))
        self._wait(result, scene.time * self.time_scale)
        result.seconds = self.loop.now() - started
        for name, evidence in self._evidence.items():
            judge(result, name, self.specs[name][1], evidence, self.build_ids[name], skips)
            self._save(logs, name, evidence)
        self.healthy = all(evidence.kernel_is_well for evidence in self._evidence.values())
        self.emulation_failed = self._emulated() and any(
            kernlog.emulation_broke(machine.console_tail(CONSOLE_TAIL)) for machine in self.machines.values())
        return result

    def failed_to_start(self, number, failure, logs):
        """The result for a scene that was never played, because start() gave a reason."""
        result = SceneResult(self.scenes[number].name, self._hosts(), logs=logs)
        result.fail(*failure)
        for name, evidence in self._evidence.items():
            evidence.end_output()
            self._save(logs, name, evidence)
        return result

    def _hosts(self):
        return {name: f"{kernel.name}:{suite}" for name, (kernel, suite) in self.specs.items()}

    def _network(self, names):
        if self.first.links == "direct" and len(names) <= 2:
            return link.Direct(names)
        return link.Switch(self.loop, names, self.options.seed)

    def _counts(self):
        return self.first.clock == "counted"

    def _accelerator(self, architecture):
        if self._counts():
            return "tcg"
        if architecture.native and not self.options.no_kvm and kvm.works(architecture.qemu):
            return "kvm"
        return "tcg,thread=multi"

    def _emulated(self):
        return any(self._accelerator(kernel.architecture) != "kvm" for kernel, _ in self.specs.values())

    def _clock_parameters(self, architecture, builder):
        """Gives an emulated kernel its time stamp counter's frequency, which it cannot measure on a busy host."""
        if not architecture.native or self._accelerator(architecture) != "tcg,thread=multi":
            return ""       # KVM has its own clock; under -icount all clocks agree
        return f"tsc_early_khz={builder.tsc_khz()} tsc=reliable"

    def _patience(self):
        """The kernel's limits for hung tasks and stalls: its defaults, stretched like all time bounds."""
        scale = max(1, self.time_scale)
        return (f"rcupdate.rcu_cpu_stall_timeout={min(300, round(21 * scale))} "
                f"watchdog_thresh={min(60, round(10 * scale))} lab_hung_seconds={round(30 * scale)}")

    def _arguments(self, name, kernel, suite, image, builder):
        """QEMU's arguments and inherited descriptors."""
        first, options, descriptors = self.first, self.options, []
        like = kernel.architecture
        append = (f"console={like.console} {COMMAND_LINE} {self._clock_parameters(like, builder)} {self._patience()} "
                  f"lab_host={name} lab_hosts={','.join(self.specs)} lab_suite={suite} lab_segments={first.segments} "
                  f"{' '.join(first.cmdline)} {options.append}")
        arguments = [*like.board, "-accel", self._accelerator(like),
                     "-smp", str(options.cpus or first.cpus), "-m", str(options.mem or first.mem),
                     "-kernel", image.kernel, "-initrd", image.files, "-append", append]
        if self._counts():
            arguments += ["-icount", "shift=0,sleep=off"]
        for number, network in enumerate(self._networks):
            descriptor = network.machine_ends[name].fileno()
            descriptors.append(descriptor)
            mac = f"02:00:00:00:{number:02x}:{HOST_NAMES.index(name) + 1:02x}"
            mtu = options.mtu or first.mtu
            arguments += ["-netdev", f"dgram,id=net{number},local.type=fd,local.str={descriptor}",
                          "-device", f"virtio-net-pci,netdev=net{number},romfile=,host_mtu={mtu},mac={mac}"]
        return arguments + options.qemu, descriptors

    def _boot_failure(self):
        for name, machine in self.machines.items():
            if name in self._released and machine.alive:
                continue
            what = "did not come up in time" if machine.alive else "died while booting"
            # Our modules are not loaded yet, and Debian's kernels boot on real machines.
            self.emulation_failed = self._emulated()
            return (name, f"machine {what}", machine.complaint() + machine.console_tail())
        for name, (kernel, _) in self.specs.items():
            if self._released[name] != kernel.release:
                return (name, f"booted {self._released[name]} instead of {kernel.release}", [])
        self.healthy = True
        return None

    def interact(self):
        """Starts a shell on the console of every machine; returns at once."""
        self._desk = Desk(self.specs, self._networks, self.reporter, SceneResult("shell", self._hosts()), ".")
        for name, machine in self.machines.items():
            machine.send("scene", 0, self._command(name, "/lab/bin/interactive"))

    def _command(self, name, *arguments):
        """The payload that starts a shell script: environment, then the words of the command."""
        kernel, suite = self.specs[name]
        words = {"HOST": name, "HOSTS": " ".join(self.specs), "KVER": kernel.name, "SUITE": suite,
                 "TIME_SCALE": f"{whole_scale(self.time_scale)}", "SEED": f"{self.options.seed}"}
        for index, (other, (other_kernel, other_suite)) in enumerate(self.specs.items(), 1):
            words |= {f"KVER_{other}": other_kernel.name, f"SUITE_{other}": other_suite,
                      f"IP_{other}": f"10.0.0.{index}", f"IP6_{other}": f"fd00::{index}",
                      f"IP1_{other}": f"10.0.1.{index}", f"IP61_{other}": f"fd00:1::{index}"}
        lines = [f"{key}={value}" for key, value in words.items()]
        return "\n".join([*lines, "/bin/sh", *arguments]).encode()

    def _frame(self, machine, frame):
        """A frame from a machine."""
        evidence = self._evidence[machine.name]
        if frame.verb == "hello":
            self._released[machine.name] = frame.payload.decode()
        elif frame.verb == "out":
            lines = evidence.output_bytes(frame.id, frame.payload)
            if self.options.verbose:
                self.reporter.output(machine.name, lines)
        elif frame.verb == "kmsg":
            evidence.kernel_record(frame.payload)
        elif frame.verb == "leak":
            evidence.leaks += frame.payload.decode("utf-8", "replace")
        elif frame.verb == "req":
            self._desk.ask(machine, frame)
        elif frame.verb == "report":
            evidence.report = parse_report(frame.payload)
            self._desk.left(machine.name)

    def _wait(self, result, seconds):
        """Waits until all machines reported, one died, or time is up."""
        deadline = self.loop.now() + seconds
        while self.loop.now() < deadline:
            if all(evidence.report for evidence in self._evidence.values()):
                return
            if self._ended:
                self._report_death(result, self._ended[0])
                return
            self.loop.step()
        hanging = [name for name, evidence in self._evidence.items() if not evidence.report]
        for key in "8wl":   # console log level, blocked tasks, state of each processor
            for name in hanging:
                self.machines[name].ask_kernel(key)
            self._linger(HANG_DUMP_SECONDS / 3)
        for name in hanging:
            evidence = self._evidence[name]
            result.fail(name, f"no end after {seconds:.0f} s",
                        ["last output:", *evidence.output[-10:], "console:",
                         *self.machines[name].console_tail(CONSOLE_TAIL)])

    def _report_death(self, result, name):
        machine = self.machines[name]
        result.fail(name, "the machine died (panic or reset)",
                    machine.complaint() + machine.console_tail(CONSOLE_TAIL))

    def _linger(self, seconds):
        until = self.loop.now() + seconds
        while self.loop.now() < until:
            self.loop.step(until - self.loop.now())

    def _save(self, logs, name, evidence):
        """Saves a machine's output, kernel log and console."""
        for kind, lines in (("out", evidence.output), ("kmsg", evidence.kernel)):
            with open(f"{logs}/{name}.{kind}", "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        console = self.machines[name].console_path
        if os.path.exists(console):
            shutil.copy(console, f"{logs}/{name}.console")
