# SPDX-License-Identifier: GPL-2.0
"""The lab's command line."""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys

from . import scene as scenes_module
from .image import Builder, ImageError
from .kernel import Kernel, KernelError
from .loop import Loop
from .report import BiteReporter, Reporter
from .run import Boot
from .shell import Terminal
from .userland import UserlandError
from .verdict import Skips

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DEFAULT_HOST = "6.1:ours"


class UsageError(Exception):
    """The command line is invalid."""


def add_machine_options(add):
    """Options about machines; `add` is a parser's add_argument."""
    add("--host", action="append", default=[], metavar="NAME=KERNEL:SUITE",
        help="kernel and modules of a machine, e.g. a=6.1:ours b=6.12:kernel")
    add("--default-host", default=DEFAULT_HOST, metavar="KERNEL:SUITE",
        help="for machines that --host does not name (default %(default)s)")
    add("--kernel-dir", action="append", default=[], metavar="[NAME=]DIR",
        help="a kernel that is not in build/kernels; NAME (default: the folder's) is its name in --host")
    add("--append", default="", help="more kernel parameters")
    add("--cpus", type=int, help="processors of each machine, instead of the scene's value")
    add("--mem", type=int, help="MiB of each machine, instead of the scene's value")
    add("--mtu", type=int, help="instead of the scene's value")
    add("--qemu", default="", metavar="ARGS", help="more arguments for QEMU, in one word")
    add("--no-kvm", action="store_true", help="emulate even where KVM works")
    add("--time-scale", type=float, default=float(os.environ.get("LAB_TIME_SCALE", "1")),
        help="stretches every time bound (default 1, or $LAB_TIME_SCALE)")
    add("--seed", type=int, default=1, help="of the links' faults, and $SEED of the scenes (default 1)")


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="lab", description="Runs scenes in virtual machines.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run scenes and print the results")
    run.add_argument("--json", metavar="FILE", help="write the results there, too")
    run.add_argument("--out", metavar="DIR", help="folder for files of `put` (default: beside the logs)")
    bite = commands.add_parser("bite", help="run scenes that must fail, and check that they do")
    shell = commands.add_parser("shell", help="boot machines and connect to their consoles")
    shell.add_argument("--hosts", type=int, default=2, help="how many machines (default 2)")
    shell.add_argument("--file", action="append", default=[], help="for the machines' $PATH")
    for command in (run, bite):
        command.add_argument("scenes", nargs="+", metavar="SCENE")
        command.add_argument("--keep", action="store_true", help="keep the logs of scenes that passed")
        command.add_argument("--verbose", "-v", action="store_true", help="show what scenes print")
    for command in (run, bite, shell):
        add_machine_options(command.add_argument)
    bite.set_defaults(out=None, json=None)
    shell.set_defaults(out=None, verbose=False)
    options = parser.parse_args(words)
    options.qemu = shlex.split(options.qemu)
    return options


def choose_hosts(options, scene, kernels):
    """{host: (Kernel, suite)} for the scene's machines; `kernels` caches kernels by name."""
    chosen = {}
    folders = dict(word.split("=", 1) if "=" in word else (os.path.basename(word.rstrip("/")), word)
                   for word in options.kernel_dir)
    given = {}
    for word in options.host:
        name, equals, spec = word.partition("=")
        if not equals or name not in scenes_module.HOST_NAMES:
            raise UsageError(f"--host {word}: not NAME=KERNEL:SUITE")
        given[name] = spec
    for name in scene.host_names:
        kernel, _, suite = given.get(name, options.default_host).partition(":")
        if name not in given and scene.suite:
            suite = scene.suite
        if suite not in ("ours", "kernel"):
            raise UsageError(f"host {name}: suite must be ours or kernel, not '{suite}'")
        if kernel not in kernels:
            folder = folders.get(kernel, f"{TOP}/build/kernels/{kernel}")
            if not os.path.exists(f"{folder}/release") and kernel not in folders:
                fetched = subprocess.run([f"{TOP}/scripts/kernels.sh", kernel], check=False)
                if fetched.returncode:
                    raise UsageError(f"kernel {kernel} could not be fetched")
            kernels[kernel] = Kernel(kernel, folder)
        chosen[name] = (kernels[kernel], suite)
    return chosen

EMULATION_RETRIES = 2   # per boot, when QEMU itself has broken a machine


def group_scenes(scenes):
    """Lists of scenes that run in one boot: a scene alone, or adjacent ones that may share and need the same machines."""
    groups = []
    for scene in scenes:
        if scene.share and groups and groups[-1][0] == scene.needs:
            groups[-1][1].append(scene)
        else:
            groups.append((scene.needs if scene.share else None, [scene]))
    return [group for _, group in groups]


def run_group(options, group, kernels, reporter, skips):
    """Runs scenes in one boot, or in a fresh one after a scene that failed."""
    builder = Builder(TOP)
    specs = choose_hosts(options, group[0], kernels)
    label = ",".join(f"{name}={kernel.name}-{suite}" for name, (kernel, suite) in specs.items())
    done = 0
    again = EMULATION_RETRIES
    while done < len(group):
        loop = Loop()
        boot = Boot(loop, options, group, specs, reporter)
        try:
            failure = boot.start(builder)
            if failure and boot.emulation_failed and again:
                again -= 1
                reporter.line(f"lab: {failure[0]}: {failure[1]}; QEMU's fault, so once more")
                continue
            if failure:
                reporter.scene_ended(boot.failed_to_start(done, failure, log_folder(group[done], label)))
                done += 1
            while done < len(group) and boot.healthy:
                logs = log_folder(group[done], label)
                result = boot.play(done, logs, skips)
                if boot.emulation_failed and again:
                    again -= 1
                    reporter.line("lab: QEMU ran code that the kernel had replaced (Documentation/lab.md), so once more")
                    break
                result.expect = group[done].expect
                reporter.scene_ended(result)
                done += 1
                if not (result.failures or result.files or options.keep):
                    shutil.rmtree(logs)
        finally:
            boot.stop()
            loop.close()


def log_folder(scene, label):
    folder = f"{TOP}/build/lab/logs/{scene.name}@{label}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def run(options):
    """The commands run and bite."""
    reporter = BiteReporter() if options.command == "bite" else Reporter()
    scenes = [scenes_module.load(path) for path in options.scenes]
    if options.command == "bite":
        scenes.sort(key=lambda scene: scene.needs)      # as few boots as possible
    skips = Skips(f"{TOP}/selftests/skips")
    kernels = {}
    for group in group_scenes(scenes):
        run_group(options, group, kernels, reporter, skips)
    if options.json:
        reporter.write_json(options.json)
    reporter.summary()
    return 1 if reporter.failed else 0


def shell(options):
    """The command shell: two machines (or as many as the user wants) for looking around."""
    scene = scenes_module.Scene("", hosts=options.hosts, links="faulty", files=options.file)
    specs = choose_hosts(options, scene, {})
    reporter, loop = Reporter(), Loop()
    boot = Boot(loop, options, [scene], specs, reporter)
    try:
        reporter.line("lab: booting " + " ".join(f"{name}={kernel.name}:{suite}"
                                                 for name, (kernel, suite) in specs.items()))
        failure = boot.start(Builder(TOP))
        if failure:
            host, reason, lines = failure
            raise UsageError("\n".join([f"{host}: {reason}", *lines]))
        boot.interact()
        Terminal(loop, boot.machines).work()
    finally:
        boot.stop()
        loop.close()
    return 0


def main(words):
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        options = parse_arguments(words)
        return shell(options) if options.command == "shell" else run(options)
    except (UsageError, KernelError, ImageError, scenes_module.SceneError, UserlandError, OSError,
            subprocess.CalledProcessError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130
